"""Options of security: `security.ssl.*` for TLS between the processes of a cluster and on its REST ports; `tidegate.security.*` for users and their
permissions."""

from __future__ import annotations

from tidegate.model.options.option import BOOL, LIST, STRING, option, optional


class SecurityOptions:
    """Options of TLS and users. Keystores and truststores are PKCS12, as written by `keytool`, or PEM: the format is detected. TLS is 1.2 or 1.3. Unset
    options of `security.ssl.internal.*` and `security.ssl.rest.*` have the values of `security.ssl.*`, as in Flink."""

    INTERNAL_ENABLED = option(
        "security.ssl.internal.enabled",
        BOOL,
        "false",
        "TLS with a certificate at both ends on gRPC, which the command line speaks, too, and on data and control connections by TCP. "
        "Who has no certificate of the truststore's authorities is not let in.",
    )
    INSECURE = option(
        "tidegate.security.insecure",
        BOOL,
        "false",
        "Ports without TLS may listen beyond loopback, and processes of a cluster speak plain text: who reaches them runs programs as the owner of the "
        "cluster. All processes and commands of a cluster have the same value. Without it, processes of one user on one machine know each other by a key "
        "in `tidegate.home`, and other users are not let in.",
    )
    DATA_ENABLED = option(
        "taskmanager.data.ssl.enabled",
        BOOL,
        "true",
        "Whether data connections of subtasks by TCP take part in `security.ssl.internal.enabled`.",
    )
    REST_ENABLED = option(
        "security.ssl.rest.enabled",
        BOOL,
        "false",
        "HTTPS on the REST ports of JobManagers, and of the history server with `historyserver.web.ssl.enabled`.",
    )
    REST_AUTHENTICATION_ENABLED = option(
        "security.ssl.rest.authentication-enabled",
        BOOL,
        "false",
        "Clients of REST prove themselves by a certificate of an authority in the truststore, browsers as well.",
    )
    KEYSTORE = optional("security.ssl.keystore", STRING, "File with the private key of a process and its certificate.")
    KEYSTORE_PASSWORD = optional("security.ssl.keystore-password", STRING, "Password of the keystore.")
    KEY_PASSWORD = optional("security.ssl.key-password", STRING, "Password of the key in the keystore.")
    TRUSTSTORE = optional(
        "security.ssl.truststore", STRING, "File with the certificates of the authorities that are believed."
    )
    TRUSTSTORE_PASSWORD = optional("security.ssl.truststore-password", STRING, "Password of the truststore.")
    INTERNAL_KEYSTORE = optional(
        "security.ssl.internal.keystore", STRING, "The keystore for `security.ssl.internal.enabled`."
    )
    INTERNAL_KEYSTORE_PASSWORD = optional("security.ssl.internal.keystore-password", STRING, "Its password.")
    INTERNAL_KEY_PASSWORD = optional("security.ssl.internal.key-password", STRING, "Password of the key in it.")
    INTERNAL_TRUSTSTORE = optional(
        "security.ssl.internal.truststore", STRING, "The truststore for `security.ssl.internal.enabled`."
    )
    INTERNAL_TRUSTSTORE_PASSWORD = optional("security.ssl.internal.truststore-password", STRING, "Its password.")
    INTERNAL_FINGERPRINT = optional(
        "security.ssl.internal.cert.fingerprint",
        STRING,
        "SHA-256 fingerprints, separated by commas, of which the certificate of each peer has to have one.",
    )
    REST_KEYSTORE = optional("security.ssl.rest.keystore", STRING, "The keystore of REST ports.")
    REST_KEYSTORE_PASSWORD = optional("security.ssl.rest.keystore-password", STRING, "Its password.")
    REST_KEY_PASSWORD = optional("security.ssl.rest.key-password", STRING, "Password of the key in it.")
    REST_TRUSTSTORE = optional(
        "security.ssl.rest.truststore",
        STRING,
        "Whom clients of REST in a cluster believe, such as a standby that passes requests on, and with "
        "`security.ssl.rest.authentication-enabled` whom the ports believe.",
    )
    REST_TRUSTSTORE_PASSWORD = optional("security.ssl.rest.truststore-password", STRING, "Its password.")
    REST_FINGERPRINT = optional(
        "security.ssl.rest.cert.fingerprint",
        STRING,
        "SHA-256 fingerprints, separated by commas, of which the certificate of a REST port has to have one for clients in a cluster.",
    )
    REST_VERIFY_HOSTNAME = option(
        "security.ssl.rest.verify-hostname",
        BOOL,
        "false",
        "Whether clients of REST in a cluster compare the name in the certificate with the host that they asked.",
    )
    USERS_FILE = optional(
        "tidegate.security.users.file",
        STRING,
        "File of the users of a cluster, with their roles (`view`, `data`, `operate`, `deploy`), as `tidegate security add-user` writes it; it is read again "
        "when it changes. Not set: who reaches a port may do everything.",
    )
    TOKEN = optional(
        "tidegate.security.token",
        STRING,
        "Token by which the command line and other clients of a cluster prove who their user is. On a command line others can read it: "
        "use the variable `TIDEGATE_SECURITY_TOKEN`, or a file.",
    )
    TOKEN_FILE = optional(
        "tidegate.security.token-file",
        STRING,
        "File with that token, which its owner alone can read.",
    )
    CLUSTER_NAME = optional(
        "tidegate.security.cluster-name",
        STRING,
        "The first name in the certificates of a cluster's processes, for a client whose own certificate is that of a user and so has another name. Not set: "
        "that of its own certificate.",
    )
    PROXY_FINGERPRINT = optional(
        "tidegate.security.proxy.fingerprint",
        STRING,
        "SHA-256 fingerprints, separated by commas, of the certificates of proxies in front of REST that are believed who their users are.",
    )
    PROXY_SECRET_FILE = optional(
        "tidegate.security.proxy.secret-file",
        STRING,
        "File with a secret that such a proxy sends, at least 16 characters, which its owner alone can read; it is read again when it changes. With "
        "fingerprints as well, both are needed.",
    )
    PROXY_SECRET_HEADER = option(
        "tidegate.security.proxy.secret-header",
        STRING,
        "X-Tidegate-Proxy-Secret",
        "The header in which the proxy sends its secret.",
    )
    PROXY_USER_HEADER = option(
        "tidegate.security.proxy.user-header",
        STRING,
        "X-Forwarded-User",
        "The header in which the proxy names the user whom it has signed in.",
    )
    PROXY_GROUPS_HEADER = option(
        "tidegate.security.proxy.groups-header",
        STRING,
        "X-Forwarded-Groups",
        "The header in which the proxy names the user's groups, separated by commas.",
    )
    PROXY_ROLES = optional(
        "tidegate.security.proxy.roles",
        LIST,
        "The role of each group, as `admins:deploy;staff:view`; of several groups the greatest role counts. A user without a group in it may do nothing.",
    )
    SIGNING_ENABLED = optional(
        "tidegate.security.signing.enabled",
        BOOL,
        "Whether a cluster runs only programs that are signed by a key of it, for the job and the graph in which they run. Not set: where there is a key, "
        "which is so with `tidegate.security.signing.key-file`, and on one machine without TLS, where it follows from the key of the user in "
        "`tidegate.home`.",
    )
    SIGNING_KEY_FILE = optional(
        "tidegate.security.signing.key-file",
        STRING,
        "File with the keys that sign programs, one a line, at least 32 characters, which its owner alone can read: the first signs, each is believed. "
        "Clients and all processes of a cluster have the same; it is read again when it changes.",
    )
    SIGNING_CLUSTER = optional(
        "tidegate.security.signing.cluster",
        STRING,
        "Name of the cluster in signatures, the same for clients and all its processes: what was signed for one cluster is refused by another one that has "
        "the same key and another name.",
    )
    SIGNING_MANIFESTS = option(
        "tidegate.security.signing.manifests",
        BOOL,
        "false",
        "Sign the manifests of checkpoints and savepoints as well, and restore from none that is not signed by a key of the cluster.",
    )
    AUDIT_ENABLED = option(
        "tidegate.security.audit.enabled",
        BOOL,
        "true",
        "Where there are users, write a line for each change that one asks for and for each refused request, as JSON, into a file beside the log of the "
        "process, `*.audit`; without a log file, into the log.",
    )
