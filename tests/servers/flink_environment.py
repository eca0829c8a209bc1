"""A whole Apache Flink with PyFlink in a virtual environment of its own, for tests that compare with it.

It is installed once from the package index, as pip is configured, into a cache below the user's cache directory;
``TIDEGATE_TEST_CACHE`` names another place. Nothing of it is imported by a test: its ``python`` runs scripts, ``home`` holds
``bin/flink`` and the jars.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FLINK = "apache-flink>=2.3,<2.4"
_INSTALL_LIMIT_S = 1500
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class FlinkEnvironment:
    """``python`` imports ``pyflink``; ``home`` is ``FLINK_HOME``: bin, conf, lib, opt."""

    python: Path
    home: Path

    def variables(self) -> dict[str, str]:
        """The environment for its processes: none of ours leaks into theirs."""
        kept = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        path = f"{self.python.parent}{os.pathsep}{kept.get('PATH', '')}"
        return {**kept, "PATH": path, "FLINK_HOME": str(self.home), "PYFLINK_PYTHON": str(self.python)}

    def examples(self) -> Path:
        """PyFlink's examples."""
        return self.home / "examples"

    def run(self, *arguments: str, limit_s: float = 300, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """``python *arguments`` there, with what it printed."""
        return subprocess.run(
            [str(self.python), *arguments],
            env=self.variables(),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )


def flink_environment() -> FlinkEnvironment:
    """Installs it if it is not there. Raises ``AssertionError`` when it cannot be had."""
    target = _target()
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be installing it
        if not (target / "complete").exists():
            _install(target)
    python = target / "bin" / "python"
    return FlinkEnvironment(python, target / "lib" / f"python{_VERSION}" / "site-packages" / "pyflink")


def is_installed() -> bool:
    return (_target() / "complete").exists()


def _target() -> Path:
    cache = Path(os.environ.get("TIDEGATE_TEST_CACHE", Path.home() / ".cache" / "tidegate-tests"))
    return cache / f"flink-2.3-python{_VERSION}"


def _install(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(target)],
        [str(target / "bin" / "python"), "-m", "pip", "install", "-q", "setuptools<81", FLINK],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S, check=False)
        assert done.returncode == 0, f"{FLINK} could not be installed:\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    (target / "complete").touch()
