#!/usr/bin/env python3
"""Write the pages of `docs/` that follow from the code, so that they cannot differ from it.

python docs/generate.py           write the pages that differ
python docs/generate.py --check   write nothing; exit 1 and name the pages that differ
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from docs._pages.cli import cli_page  # noqa: E402
from docs._pages.configuration import configuration_page  # noqa: E402
from docs._pages.lanes import lanes_page  # noqa: E402
from docs._pages.module_map import modules_page  # noqa: E402
from docs._pages.python_modules import python_page  # noqa: E402
from docs._pages.scalar_functions import scalar_functions_page  # noqa: E402
from docs._pages.state_machines import state_machines_page  # noqa: E402
from docs._pages.types_of_connectors import types_of_connectors_page  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 when the pages are fresh or written, 1 when `--check` found one that differs."""
    parser = argparse.ArgumentParser(description="Write the pages of docs/ that follow from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when a page differs")
    check = parser.parse_args(arguments).check
    differing = [name for name, text in pages().items() if read(DOCS / name) != text]
    for name in differing:
        if check:
            print(f"docs/{name} is not what the code says; run `make docs`", file=sys.stderr)
        else:
            (DOCS / name).write_text(pages()[name], encoding="utf-8")
            print(f"wrote docs/{name}")
    if check and not differing:
        print("generated pages are fresh")
    return 1 if check and differing else 0


def pages() -> dict[str, str]:
    """The generated pages: file name below `docs/` -> text."""
    made = {
        "configuration.md": configuration_page(),
        "internals/modules.md": modules_page(),
        "internals/tests.md": lanes_page(),
        "reference/cli.md": cli_page(),
        "reference/python.md": python_page(),
        "reference/scalar_functions.md": scalar_functions_page(),
        "reference/types_of_connectors.md": types_of_connectors_page(),
        "state-machines.md": state_machines_page(),
    }
    return {name: "\n".join(lines) + "\n" for name, lines in made.items()}


def read(path: Path) -> str | None:
    """The text of a page, `None` when there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
