"""Objects whose class a script defines itself are read by a process that runs another script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WRITER = """
import dataclasses, enum, sys
from pathlib import Path
from tidegate.records.keys import hash_keys
from tidegate.records.column_codec import pickle_value

class Colour(enum.Enum):
    RED = 1

class Plain:
    def __init__(self, x): self.x = x
    def doubled(self): return self.x * 2
    def __eq__(self, other): return self.x == other.x
    def __hash__(self): return hash(self.x)

@dataclasses.dataclass
class Point:
    x: int
    colour: Colour

values = [Plain(21), Point(1, Colour.RED), {"inner": [Plain(4)]}, "the text __main__"]
Path(sys.argv[1]).write_bytes(pickle_value(values))
"""
READER = """
import pickle, sys
from pathlib import Path

plain, point, nested, text = pickle.loads(Path(sys.argv[1]).read_bytes())
assert not hasattr(sys.modules["__main__"], "Plain")
print(plain.doubled(), point, nested["inner"][0].x, text, type(nested["inner"][0]) is type(plain))
"""
HASH = """
import pickle, sys
from pathlib import Path
from tidegate.records.keys import hash_keys
print(hash_keys([pickle.loads(Path(sys.argv[1]).read_bytes())[0]]))
"""


def run(program: str, file: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_they_travel_by_value(tmp_path: Path) -> None:
    file = tmp_path / "values"
    run(WRITER, file)
    assert run(READER, file) == "42 Point(x=1, colour=<Colour.RED: 1>) 4 the text __main__ True"


def test_as_keys_they_have_the_same_hash_in_every_process(tmp_path: Path) -> None:
    file = tmp_path / "values"
    of_21 = run(f"{WRITER}\nprint(hash_keys([Plain(21)]))", file)
    assert run(HASH, file) == of_21
    assert run(f"{WRITER}\nprint(hash_keys([Plain(22)]))", file) != of_21
