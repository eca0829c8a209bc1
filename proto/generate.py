#!/usr/bin/env python3
"""Generate `tidegate/pb` from `proto/tidegate/pb/*.proto`: messages, gRPC stubs and their type stubs.

    python proto/generate.py           write what differs, delete what no schema explains
    python proto/generate.py --check   write nothing; exit 1 and name what differs

The output depends on the schemas and on the locked versions of grpcio-tools and mypy-protobuf only, so `--check` in CI
proves that the committed code is fresh. This folder holds schemas and this tool; it is not an importable package.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = Path("proto", "tidegate", "pb")
OUTPUT = Path("tidegate", "pb")
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 when fresh or written, 1 when `--check` found a difference, 2 when protoc refused a schema."""
    parser = argparse.ArgumentParser(description="Generate tidegate/pb from proto/tidegate/pb/*.proto.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when the committed code differs")
    check = parser.parse_args(arguments).check
    with tempfile.TemporaryDirectory(prefix="tidegate-proto-") as scratch:
        try:
            fresh = generate(ROOT, Path(scratch))
        except subprocess.CalledProcessError as error:
            print(f"proto/generate.py: protoc refused a schema:\n{error.stderr}", file=sys.stderr)
            return 2
    differing = differences(ROOT, fresh)
    if check:
        return report(differing)
    for name in differing:
        target = ROOT / OUTPUT / name
        if name in fresh:
            target.write_bytes(fresh[name])
            print(f"wrote {OUTPUT / name}")
        else:
            target.unlink()
            print(f"deleted {OUTPUT / name}")
    return 0


def generate(root: Path, scratch: Path) -> dict[str, bytes]:
    """What the schemas below `root` generate: file name -> content. Raises `CalledProcessError` with protoc's words."""
    schemas = sorted((root / SCHEMAS).glob("*.proto"))
    if not schemas:
        return {}
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={root / 'proto'}"),
        *(f"--plugin=protoc-gen-{plugin}={find_plugin(plugin)}" for plugin in ("mypy", "mypy_grpc")),
        *(f"--{kind}_out={scratch}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")),
        *(schema.relative_to(root / "proto").as_posix() for schema in schemas),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    found = {}
    for pattern in GENERATED:
        for path in sorted((scratch / OUTPUT).glob(pattern)):
            if not is_empty_servicer(path):
                found[path.name] = path.read_bytes()
    return found


def is_empty_servicer(path: Path) -> bool:
    """Whether this is the gRPC half of a schema without services, which only confuses readers."""
    if "_pb2_grpc." not in path.name:
        return False
    return "class " not in path.with_suffix(".py").read_text(encoding="utf-8")


def find_plugin(name: str) -> str:
    """The protoc plugin of this interpreter's environment. Exits with a clear line when it is not installed."""
    program = f"protoc-gen-{name}"
    found = shutil.which(program, path=sysconfig.get_path("scripts")) or shutil.which(program)
    if found is None:
        sys.exit(f"proto/generate.py: {program} is missing; install the dev extra (`make install`)")
    return found


def differences(root: Path, fresh: dict[str, bytes]) -> list[str]:
    """Names of the generated files that are missing, stale or left over."""
    committed = {path.name: path for pattern in GENERATED for path in (root / OUTPUT).glob(pattern)}
    stale = [name for name, body in fresh.items() if name not in committed or committed[name].read_bytes() != body]
    return sorted({*stale, *(committed.keys() - fresh.keys())})


def report(differing: list[str]) -> int:
    """Print the verdict of `--check` and return its exit code."""
    if not differing:
        print("tidegate/pb is fresh")
        return 0
    print("tidegate/pb is not what proto/ generates; run `make proto`:", file=sys.stderr)
    for name in differing:
        print(f"  {OUTPUT / name}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
