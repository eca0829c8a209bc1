"""The project's own files, as the architecture tests look at them."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("tidegate", "jobmanager", "taskmanager", "cli", "tests", "examples", "benchmarks", "docs", "proto")
GENERATED = ROOT / "tidegate" / "pb"


@cache
def python_files() -> tuple[Path, ...]:
    """Every Python file that somebody wrote, without the generated ones."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return tuple(sorted(path for path in found if GENERATED not in path.parents))


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def committed_files() -> tuple[Path, ...]:
    """Every file that git knows, or nothing outside a repository (an unpacked source archive)."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    ).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def name_of(path: Path) -> str:
    """The path below the project, with `/`."""
    return path.relative_to(ROOT).as_posix()
