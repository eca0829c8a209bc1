"""Who may change something: Flink's own tools and pages of ours, never a foreign page in the user's browser.

A foreign page can make a browser send requests here (cross-site posts), or give our address a name of its own (DNS
rebinding). The browser then tells ``Origin`` and ``Sec-Fetch-Site``, and ``Host`` is a name that is not ours. Tools such as
``flink`` and curl send no ``Origin``. What may be read is another matter: ``web.access-control-allow-origin``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from tidegate.jobmanager.rest.http.errors import RestError

_LOOPBACK = frozenset({"localhost", "ip6-localhost"})
_OWN_SITES = frozenset({"same-origin", "none"})


class OriginGuard:
    """``names``: hosts under which this endpoint is reached, beside addresses and ``localhost``."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = _LOOPBACK | {name.lower() for name in names if name}

    def check(self, headers: Mapping[str, str]) -> None:
        """Raises ``RestError`` 403 for a request that a foreign page may have caused."""
        host = headers.get("Host", "")
        if not self._is_ours(_host_of(f"//{host}")):
            raise RestError(
                403,
                f"Refused: {host!r} is not a name of this endpoint. Use localhost, its address, or the name that "
                "rest.address gives it.",
            )
        origin = headers.get("Origin")
        if origin is not None and _netloc_of(origin) != host.lower():
            raise RestError(403, f"Refused: pages of {origin!r} may not change anything here.")
        site = headers.get("Sec-Fetch-Site")
        if site is not None and site not in _OWN_SITES:
            raise RestError(403, f"Refused: a {site} request may not change anything here.")

    def _is_ours(self, host: str) -> bool:
        if host in self._names:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def _netloc_of(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _host_of(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
