"""TLS contexts for the REST ports of a cluster and their clients, where ``security.ssl.rest.enabled`` is true."""

from __future__ import annotations

import logging
import ssl

from tidegate.aio.listening import is_loopback
from tidegate.aio.transport import exposed
from tidegate.model.configuration import Configuration
from tidegate.model.options import SecurityOptions

_log = logging.getLogger(__name__)


def https_server(configuration: Configuration, host: str, *, is_wanted: bool = True) -> ssl.SSLContext | None:
    """Returns the TLS context of a REST port, which reads renewed certificates for new connections; ``None``: plain HTTP. ``host``: where the port
    listens. Raises ``ConfigurationError``, also where plain HTTP would be reachable from other machines and that is not allowed."""
    option = SecurityOptions
    if not (is_wanted and configuration.get(option.REST_ENABLED)):
        if not is_loopback(host):
            if not configuration.get(option.INSECURE):
                raise exposed(f"HTTP on {host}", option.REST_ENABLED)
            _log.warning("HTTP on %s has no TLS: everyone who can reach it can do what this user may do", host)
        return None
    from tidegate.security.tls import renewing_context
    from tidegate.security.tls_settings import rest_server_tls  # its imports take as long as those of a web server

    is_mutual = configuration.get(option.REST_AUTHENTICATION_ENABLED)
    return renewing_context(rest_server_tls(configuration), is_mutual=is_mutual)


def https_client(configuration: Configuration) -> ssl.SSLContext | None:
    """Returns the TLS context of a client of REST ports; ``None``: plain HTTP. Raises ``ConfigurationError``."""
    option = SecurityOptions
    if not configuration.get(option.REST_ENABLED):
        return None
    from dataclasses import replace

    from tidegate.security.tls import believed, client_context
    from tidegate.security.tls_settings import rest_client_tls

    material = rest_client_tls(configuration).get()
    narrowed = replace(material, trusted=believed(material))
    return client_context(narrowed, checks_name=configuration.get(option.REST_VERIFY_HOSTNAME))


def rest_scheme(configuration: Configuration) -> str:
    """Returns ``https`` where the REST ports of the cluster use TLS, else ``http``."""
    return "https" if configuration.get(SecurityOptions.REST_ENABLED) else "http"


def rest_url(configuration: Configuration, host: str, port: int) -> str:
    """Returns the URL of a REST port."""
    scheme = rest_scheme(configuration)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
