"""A real PostgreSQL server for tests: a cluster in a temporary directory, on a loopback port, which prepares transactions.

The server's programs are Debian's (``/usr/lib/postgresql/<version>/bin``) or those on the path. PostgreSQL refuses to run as
root: then the processes belong to the user ``postgres``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.accounting import STARTS
from tests.e2e.waiting import wait_until
from tests.ports import free_port

_LIMIT_S = 120


def _program(name: str) -> str:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    for directory in versions:
        if (directory / name).exists():
            return str(directory / name)
    found = shutil.which(name)
    assert found, f"the tests of PostgreSQL need its server ({name}): install the package postgresql"
    return found


class PostgresServer:
    """A context manager. ``conninfo`` is what clients connect with."""

    def __init__(self, max_prepared_transactions: int = 64) -> None:
        self._limit = max_prepared_transactions
        self._directory = Path(tempfile.mkdtemp(prefix="tg-pg-"))
        self._data = self._directory / "data"
        self._as_user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
        self.port = free_port()
        self.conninfo = f"host=127.0.0.1 port={self.port} user=tidegate dbname=postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresServer:
        if self._as_user:
            shutil.chown(self._directory, **self._as_user)
        command = [
            _program("initdb"),
            "-D",
            str(self._data),
            "-U",
            "tidegate",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, cwd="/", **self._as_user
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._directory),
            "max_prepared_transactions": str(self._limit),
            "shared_buffers": "32MB",
        }
        command = [
            _program("postgres"),
            "-D",
            str(self._data),
            *(f"--{name}={value}" for name, value in options.items()),
        ]
        STARTS["PostgreSQL"] += 1
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                **self._as_user,
            )
        wait_until(self._answers, _LIMIT_S, "PostgreSQL answers")

    def stop(self) -> None:
        """At once, as a crash: what was not synced is recovered from the log at the next start."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_LIMIT_S)
            self._process = None

    def query(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            cursor = connection.execute(sql, arguments or None)
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        import psycopg

        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "server.log").read_text(errors="replace")
        try:
            return bool(self.query("SELECT 1"))
        except psycopg.OperationalError:
            return False
