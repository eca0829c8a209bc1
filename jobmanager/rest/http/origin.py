"""Refuses requests of foreign web pages: only tools and this endpoint's own pages are served.

A foreign page can make a browser send requests here (posts, images, frames), or give our address a name of its own (DNS rebinding). What a browser
tells about them, and no page can change:

- ``Host``: the name under which the page reached us. One that is not ours is refused for every request, reads too.
- ``Origin``, with every POST, PUT, PATCH and DELETE. Tools such as ``flink`` and curl send none.
- ``Sec-Fetch-Site``, over https and to loopback addresses alone.
- ``Referer``, unless the page forbids it; and ``User-Agent``, which begins with ``Mozilla/`` in every browser.

So a GET that changes something, as Flink's ``yarn-cancel`` does and ``/jars/:jarid/plan``, which runs a program, has to show that it is not
an image on a foreign page: by ``Origin`` or ``Referer`` of this endpoint, as Flink's dashboard and our page send, by ``Sec-Fetch-Site``, or by not
being a browser's.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.model.configuration import Configuration
from tidegate.model.options import JobManagerOptions, RestOptions

_LOOPBACK = frozenset({"localhost", "ip6-localhost"})
_OWN_SITES = frozenset({"same-origin", "none"})
_BROWSERS = "Mozilla/"


class OriginGuard:
    """Checks the origin of requests. ``names``: hosts under which this endpoint is reached, besides addresses and ``localhost``."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = _LOOPBACK | {name.lower() for name in names if name}

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Raises ``RestError`` 403 for a request under a host name that is not ours."""
        host = headers.get("Host", "")
        if not self._is_ours(_host_of(f"//{host}")):
            raise RestError(
                403,
                f"Refused: {host!r} is not a name of this endpoint. Use localhost, its address, the name that rest.address gives it, "
                "or one of tidegate.rest.host-names.",
            )

    def check_change(self, method: str, headers: Mapping[str, str]) -> None:
        """Raises ``RestError`` 403 for a request that changes something and that a foreign page may have caused."""
        self.check_host(headers)
        origin = headers.get("Origin")
        if origin is not None and _netloc_of(origin) != _host(headers):
            raise RestError(403, f"Refused: pages of {origin!r} may not change anything here.")
        site = headers.get("Sec-Fetch-Site")
        if site is not None and site not in _OWN_SITES:
            raise RestError(403, f"Refused: a {site} request may not change anything here.")
        if method == "GET" and not self.comes_from_here(headers):
            raise RestError(
                403,
                "Refused: this GET changes something, and nothing shows that no foreign page sent it. Use the page of this endpoint, a tool "
                "that is no browser, or the request with POST, PATCH or DELETE.",
            )

    @staticmethod
    def comes_from_here(headers: Mapping[str, str]) -> bool:
        """Tells whether a page of this endpoint, the user, or a tool sent the request. A foreign page cannot pretend that."""
        page = headers.get("Origin") or headers.get("Referer")
        if page is not None:
            return _netloc_of(page) == _host(headers)
        return headers.get("Sec-Fetch-Site") in _OWN_SITES or not headers.get("User-Agent", "").startswith(_BROWSERS)

    def _is_ours(self, host: str) -> bool:
        if host in self._names:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def own_names(configuration: Configuration) -> tuple[str, ...]:
    """Returns the configured host names of the endpoint, besides addresses and ``localhost``."""
    option = configuration.get
    names = (
        option(RestOptions.BIND_ADDRESS),
        option(RestOptions.ADDRESS),
        option(JobManagerOptions.RPC_ADDRESS),
        socket.gethostname(),
        *(option(RestOptions.HOST_NAMES) or ()),
    )
    return tuple(name for name in names if name)


def allowed_origin(configuration: Configuration) -> dict[str, str]:
    """Returns the header by which the configured foreign page may read answers; empty when there is none."""
    origin = configuration.get(RestOptions.ALLOW_ORIGIN)
    return {"access-control-allow-origin": origin} if origin else {}


def _host(headers: Mapping[str, str]) -> str:
    return headers.get("Host", "").lower()


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
