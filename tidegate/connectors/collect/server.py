"""The socket side of a collecting sink: accepts one client after the other, in a thread of its own."""

from __future__ import annotations

import contextlib
import hmac
import logging
import socket
import threading
from collections.abc import Callable

from tidegate.connectors.collect.messages import (
    TOKEN_BYTES,
    Request,
    ResultsResponse,
    receive,
    receive_request,
    send_answer,
)
from tidegate.security.handshakes import reason_of_loss
from tidegate.security.sockets import TlsSocket

log = logging.getLogger(__name__)

_HELLO_LIMIT_S = 10.0
"""How long a client may take to send its token, in seconds. Chosen, not measured."""


class CollectServer:
    """Serves one client at a time. ``answer`` is called from the server's thread for every request of a client with the right token."""

    def __init__(self, listener: socket.socket, token: bytes, answer: Callable[[Request], ResultsResponse]) -> None:
        self._listener = listener
        self._token = token
        self._answer = answer
        self._closed = False
        self._client: socket.socket | None = None
        listener.setblocking(True)
        self._thread = threading.Thread(target=self._run, name="collect-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Closes the connections and stops the thread."""
        self._closed = True
        for sock in (self._listener, self._client):
            if sock is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()
        self._thread.join(_HELLO_LIMIT_S)

    def _run(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                self._client = client
                try:
                    self._serve(client)
                except OSError as error:
                    log.info("a client that collects results closed its connection: %s", reason_of_loss(error))
                self._client = None

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(_HELLO_LIMIT_S)
        if isinstance(client, TlsSocket):
            client.authenticate()
        if not hmac.compare_digest(receive(client, TOKEN_BYTES), self._token):
            log.warning("refused a client that asked for results with a wrong token")
            return
        client.settimeout(None)
        while not self._closed:
            send_answer(client, self._answer(receive_request(client)))
