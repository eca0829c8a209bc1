"""Jars from Maven, fetched once into a cache below the user's cache directory; ``TIDEGATE_TEST_CACHE`` names another place."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_DOWNLOAD_LIMIT_S = 900


def java() -> str:
    """The program."""
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"


def cache_directory() -> Path:
    """What is fetched or built once lies there."""
    return Path(os.environ.get("TIDEGATE_TEST_CACHE", Path.home() / ".cache" / "tidegate-tests"))


def fetched(pom: Path, name: str) -> Path:
    """The directory that holds what a pom depends on. Raises ``AssertionError`` when it cannot be had."""
    cache = cache_directory()
    target = cache / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=cache))
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_LIMIT_S, check=False)
    except FileNotFoundError:
        raise AssertionError(f"{name} needs Maven (mvn) to fetch its jars: install it") from None
    assert done.returncode == 0, f"the jars of {name} could not be fetched:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    try:
        fresh.rename(target)
    except OSError:  # another run was faster
        shutil.rmtree(fresh)
    return target
