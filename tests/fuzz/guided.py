"""One target, fed by libFuzzer through Atheris, which keeps inputs that reach code that none before them has reached.

python -m tests.fuzz.guided NAME CORPUS [OPTION OF LIBFUZZER...]     ends with another code than 0 and a traceback where it finds something
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["tidegate"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name, corpus, *options = sys.argv[1:]
    target = TARGETS[name]
    for number, one in enumerate(target.corpus):
        Path(corpus, f"valid-{number}").write_bytes(one)
    atheris.Setup([sys.argv[0], corpus, *options], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
