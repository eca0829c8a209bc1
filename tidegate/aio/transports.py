"""Selects the gRPC transport that a configuration asks for."""

from __future__ import annotations

from tidegate.aio.homes import home_of
from tidegate.aio.transport import PLAIN, Transport
from tidegate.model.configuration import Configuration
from tidegate.model.options import FileOptions, SecurityOptions
from tidegate.security.own import own_key


def transport_of(configuration: Configuration) -> Transport:
    """Returns the transport of a configuration. Raises ``ConfigurationError`` for keystores that are missing or cannot be read, and ``ExternalError``
    for a key of the user that cannot be used."""
    if not configuration.get(SecurityOptions.INTERNAL_ENABLED):
        if configuration.get(SecurityOptions.INSECURE):
            return PLAIN
        from tidegate.aio.own_transport import OwnTransport

        return OwnTransport(own_key(home_of(configuration)))
    from tidegate.aio.tls_transport import TlsTransport  # its imports take as long as those of gRPC
    from tidegate.security.tls_settings import internal_tls

    return TlsTransport(internal_tls(configuration), configuration.get(SecurityOptions.CLUSTER_NAME) or "")


def ways_of(configuration: Configuration) -> dict[str, str]:
    """Returns the settings by which a process connects to a cluster and signs what it submits there: their texts by key."""
    own = (SecurityOptions.INSECURE.key, FileOptions.HOME.key)
    prefixes = ("security.ssl.", "tidegate.security.signing.")
    return {key: text for key, text in configuration.to_strings().items() if key.startswith(prefixes) or key in own}
