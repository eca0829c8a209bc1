"""Runs PyFlink's examples one after the other in one Flink. Started by Flink's Python, never imported by a test.

    python flink_examples.py <directory of the examples> <directory for outputs> <name> ...

What an example writes lies below the second directory, in one of its name; what it prints follows a line ``=== name``.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys


def main(examples: str, outputs: str, names: list[str]) -> None:
    gateway = importlib.import_module("pyflink.java_gateway").get_gateway()
    for name in names:
        path = os.path.join(examples, f"{name}.py")
        sys.argv = [path, "--output", os.path.join(outputs, name)]
        gateway.jvm.System.out.println(f"=== {name}")
        runpy.run_path(path, run_name="__main__")
    gateway.jvm.System.out.println("=== end")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
