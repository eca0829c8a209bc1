"""Looks for inputs that break what reads bytes from outside, guided by the code that they reach.

python -m tests.fuzz.soak [--seconds 120] [--target NAME]...

Each target has a process of its own, with limits of memory and of time for each input. What is found is left in the directory that is printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import TARGETS

LIMITS = ("-rss_limit_mb=2048", "-timeout=20", "-max_len=65536", "-verbosity=0", "-print_final_stats=1")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soak", description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="for each target")
    parser.add_argument(
        "--target", action="append", choices=list(TARGETS), help="may be given several times; all of them otherwise"
    )
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("Atheris is not installed: pip install --require-hashes -r requirements/fuzz.lock", file=sys.stderr)
        return 1
    found = [name for name in arguments.target or TARGETS if not _fuzz(name, arguments.seconds)]
    if found:
        print(f"found something: {', '.join(found)}", file=sys.stderr)
        return 1
    print("nothing was found")
    return 0


def _fuzz(name: str, seconds: int) -> bool:
    """Whether nothing was found."""
    place = Path(tempfile.mkdtemp(prefix="tidegate-fuzz-"))
    corpus = place / "corpus"
    corpus.mkdir()
    options: Sequence[str] = (*LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={place}/")
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(corpus), *options]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=seconds + 600)
    runs = next((line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line), "?")
    print(f"{name}: {runs} inputs, {len(list(corpus.iterdir()))} kept", flush=True)
    if done.returncode:
        print(f"{(done.stdout + done.stderr)[-5000:]}\nits input is in {place}", file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
