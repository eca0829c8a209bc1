"""A real schema registry for tests: Apicurio on loopback, one JVM, everything in memory; clients use its Confluent API.

Its archive comes from Maven once (``tests.servers.jars``).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from tests.e2e.cluster import free_port
from tests.e2e.waiting import wait_until
from tests.servers.jars import java, unpacked

_POM = Path(__file__).parent / "registry" / "pom.xml"
_START_LIMIT_S = 120


class SchemaRegistryServer:
    """A context manager. ``url`` is what clients of Confluent's registry are given; it stays across ``stop`` and ``start``."""

    def __init__(self) -> None:
        self._port = free_port()
        self._directory = Path(tempfile.mkdtemp(prefix="tg-registry-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"127.0.0.1:{self._port}"
        self.url = f"http://{self.address}/apis/ccompat/v7"

    def __enter__(self) -> SchemaRegistryServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self._log()[-3000:])
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Wait until it answers."""
        told = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": str(self._port)}
        told |= {"quarkus.management.host": "127.0.0.1", "quarkus.management.port": str(free_port())}
        options = ["-Xmx512m", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", *(f"-D{k}={v}" for k, v in told.items())]
        command = [java(), *options, "-jar", str(unpacked(_POM, "schema-registry") / "quarkus-run.jar")]
        with (self._directory / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._directory, start_new_session=True
            )
        wait_until(self._answers, _START_LIMIT_S, "the schema registry answers")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the schema registry ended:\n{self._log()[-3000:]}"
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _log(self) -> str:
        log = self._directory / "registry.log"
        return log.read_text(errors="replace") if log.exists() else ""
