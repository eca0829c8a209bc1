"""The transport that a configuration asks for."""

from __future__ import annotations

from tidegate.aio.transport import PLAIN, Transport
from tidegate.model.configuration import Configuration
from tidegate.model.options import SecurityOptions


def transport_of(configuration: Configuration) -> Transport:
    """Raises ``ConfigurationError`` for keystores that are missing or cannot be read."""
    if not configuration.get(SecurityOptions.INTERNAL_ENABLED):
        return PLAIN
    from tidegate.aio.tls_transport import TlsTransport  # its imports take as long as those of gRPC
    from tidegate.security.settings import internal_tls

    return TlsTransport(internal_tls(configuration))
