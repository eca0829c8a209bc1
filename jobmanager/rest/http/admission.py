"""Authenticates requests to the REST API when a cluster has users, and checks their roles.

proxy that is trusted ─▶ Authorization: Bearer <token> ─▶ cookie of the dashboard ─▶ certificate of the client ─▶ 401; 403 for a role that is too small
"""

from __future__ import annotations

import base64

from aiohttp import web

from tidegate.aio.admission import Admission, bearer_of, check_role
from tidegate.aio.audit import DONE
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.model.configuration import Configuration
from tidegate.model.errors import NotAuthenticated, NotPermitted
from tidegate.security.proxy import TrustedProxy
from tidegate.security.users import Role, User

COOKIE = "tidegate-token"
BROWSER_CHALLENGE = {
    "www-authenticate": 'Bearer realm="tidegate", Basic realm="tidegate (password: a token)", charset="UTF-8"'
}
"""The headers by which a browser asks for a name and a password, for pages that have no sign-in of their own."""


class RestAdmission:
    """Authenticates and authorizes requests.

    ``takes_passwords``: a token may come as the password of any user name, as browsers send it after ``BROWSER_CHALLENGE``. They send it with
    each request from then on, whichever page causes it, so a port that takes them must change nothing.
    """

    def __init__(
        self, admission: Admission, proxy: TrustedProxy | None = None, *, takes_passwords: bool = False
    ) -> None:
        self._admission, self._proxy, self._takes_passwords = admission, proxy, takes_passwords

    @staticmethod
    def of(
        admission: Admission | None, configuration: Configuration, *, takes_passwords: bool = False
    ) -> RestAdmission | None:
        """Creates it as configured; ``None`` when there are no users. Raises ``ConfigurationError``."""
        proxy = TrustedProxy.of(configuration)
        return None if admission is None else RestAdmission(admission, proxy, takes_passwords=takes_passwords)

    def who(self, request: web.BaseRequest) -> User | None:
        """Returns the user of a request; ``None`` when it names none.

        Raises ``RestError`` 401 for an invalid token and for proxy headers from another caller, 403 for a user of the proxy without a role.
        """
        tls = request.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if self._proxy is not None:
            try:
                user = self._proxy.user(lambda name: request.headers.getall(name, ()), certificate)
            except NotAuthenticated as error:
                raise RestError(401, error.message) from None
            except NotPermitted as error:
                raise RestError(403, error.message) from None
            if user is not None:
                return user
        header = request.headers.get("Authorization")
        token = request.cookies.get(COOKIE, "") if header is None else self._token_in(header)
        if header is not None or token:
            user = self._admission.of_token(token)
            if user is None:
                raise RestError(401, "The token belongs to no user of this cluster.")
            return user
        return self._admission.users.get().of_certificate(certificate) if certificate else None

    def _token_in(self, header: str) -> str:
        """Returns the token of an ``Authorization`` header; empty when there is none."""
        return bearer_of(header) or (_password_in(header) if self._takes_passwords else "")

    def admit(self, request: web.BaseRequest, needed: Role) -> User:
        """Returns the user of a request that has the needed role. Raises ``RestError`` 401 or 403, and writes that to the audit log."""
        user = None
        try:
            user = self.who(request)
            if user is None:
                raise RestError(
                    401,
                    "This cluster admits only its users: send a token as `Authorization: Bearer`, or sign in on its page.",
                )
            check_role(user, needed, f"{request.method} {request.path}")
        except NotPermitted as error:
            self._tell(user, request, f"refused: {error.message}")
            raise RestError(403, error.message) from None
        except RestError as error:
            self._tell(user, request, f"refused: {error.messages[0]}")
            raise
        return user

    def may(self, request: web.BaseRequest, needed: Role) -> bool:
        """Tells whether the user of a long-running request still has the role: users can be removed meanwhile."""
        try:
            user = self.who(request)
        except RestError:
            return False
        return user is not None and user.role.includes(needed)

    def tell(self, user: User, request: web.BaseRequest, status: int) -> None:
        """Writes a requested change and its outcome to the audit log."""
        self._tell(user, request, DONE if status < 400 else f"HTTP {status}")

    def signed_in(self, request: web.BaseRequest, token: str) -> User:
        """Returns the user of a token, for a sign-in. Raises ``RestError`` 401."""
        user = self._admission.of_token(token)
        if user is None:
            self._tell(None, request, "refused: not a token")
            raise RestError(401, "The token belongs to no user of this cluster.")
        self._tell(user, request, DONE)
        return user

    def _tell(self, user: User | None, request: web.BaseRequest, result: str) -> None:
        self._admission.audit.write(user, request.remote or "", request.method, request.path, result)


def _password_in(header: str) -> str:
    """Returns the password of an ``Authorization`` header; empty for another scheme or invalid text (RFC 7617)."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""
