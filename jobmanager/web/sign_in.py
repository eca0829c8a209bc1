"""Signing in on the page, which keeps the token for its tab. Flink's dashboard knows no tokens: it gets a cookie that no script can read.

GET /web/session     who is signed in, and whether that is asked for here
POST /web/session    {"token": "..."}: whose it is; the cookie is set where there is a dashboard, for as long as the browser is open
DELETE /web/session  the cookie goes
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from aiohttp import web

from tidegate.jobmanager.rest.http.admission import COOKIE, RestAdmission
from tidegate.jobmanager.rest.http.bodies import read_body
from tidegate.jobmanager.rest.http.errors import RestError, bad_request
from tidegate.security.users import User


class SignIn:
    """Handles sign-in and sign-out.

    ``admission``: ``None`` when the cluster has no users. ``check_change``: raises ``RestError`` for requests of foreign pages. ``dashboard``: the
    path of the cookie; ``None``: no cookie is set.
    """

    def __init__(
        self,
        admission: RestAdmission | None,
        check_change: Callable[[str, Mapping[str, str]], None],
        respond: Callable[[int, object], web.Response],
        dashboard: str | None,
    ) -> None:
        self._admission, self._check_change, self._respond = admission, check_change, respond
        self._dashboard = dashboard

    async def who(self, request: web.Request) -> web.StreamResponse:
        """Answers who is signed in; no user when the token was revoked."""
        try:
            user = None if self._admission is None else self._admission.who(request)
        except RestError:
            user = None
        return self._answer(user)

    async def sign_in(self, request: web.Request) -> web.StreamResponse:
        """Signs in with the token of the body. Raises ``RestError`` 400, 401 or 403."""
        self._check_change(request.method, request.headers)
        token = _token_in(await read_body(request))
        if self._admission is None:
            return self._answer(None)
        response = self._answer(self._admission.signed_in(request, token))
        if self._dashboard is not None:
            response.set_cookie(
                COOKIE, token, path=self._dashboard, httponly=True, samesite="Strict", secure=request.secure
            )
        return response

    async def sign_out(self, request: web.Request) -> web.StreamResponse:
        """Deletes the cookie. Raises ``RestError`` 403."""
        self._check_change(request.method, request.headers)
        response = self._answer(None)
        if self._dashboard is not None:
            response.del_cookie(COOKIE, path=self._dashboard, httponly=True, samesite="Strict", secure=request.secure)
        return response

    def _answer(self, user: User | None) -> web.Response:
        who = {} if user is None else {"name": user.name, "role": user.role.value}
        response = self._respond(200, {"users": self._admission is not None, **who})
        response.headers["cache-control"] = "no-store"
        return response


def _token_in(body: bytes) -> str:
    try:
        found = json.loads(body)
        token = found["token"] if isinstance(found, dict) else None
    except (ValueError, KeyError, RecursionError):
        token = None
    if not isinstance(token, str):
        raise bad_request('Request did not match expected format: {"token": "..."}.')
    return token
