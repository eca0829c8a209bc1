"""Runs scripts one after the other in one process. Started by the Python of Flink or of tidegate, never imported by a test.

    python run_scripts.py pyflink|tidegate <directory of the scripts> <name> ...

What a script prints, by itself or from its jobs, follows a line ``=== name``.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from typing import Any


def main(package: str, directory: str, names: list[str]) -> None:
    sys.path.insert(0, directory)
    gateway: Any = importlib.import_module("pyflink.java_gateway").get_gateway() if package == "pyflink" else None

    def tell(line: str) -> None:
        print(line, flush=True) if gateway is None else gateway.jvm.System.out.println(line)

    for name in names:
        tell(f"=== {name}")
        path = os.path.join(directory, f"{name}.py")
        sys.argv = [path]
        runpy.run_path(path, run_name="__main__")
        sys.stdout.flush()
    tell("=== end")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
