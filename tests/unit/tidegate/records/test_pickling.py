"""What travels by value tells in tracebacks where it was written, with any cloudpickle: `.ci/versions newest` runs this with the newest."""

from __future__ import annotations

import pickle
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tidegate.common import Duration, Instant, Row, Types
from tidegate.connectors.source.serializers import PickleSerializer
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.operator_options import SelectOptions
from tidegate.records.column_codec import pickle_value
from tidegate.records.pickling import dumps, loads
from tidegate.taskmanager.spark.user_code import load_program

SCRIPT = """
def outer():
    threshold = 0

    def inner(value):
        return value / threshold  # fails here

    return inner


class Divides:
    def map(self, value):
        return [n / 0 for n in [value]]  # fails here


def gives(value):
    yield value / 0  # fails here
"""


@pytest.fixture
def script(tmp_path: Path) -> dict[str, Any]:
    """The names of a job's script, which is ``__main__`` where it runs."""
    file = tmp_path / "job.py"
    file.write_text(SCRIPT, encoding="utf-8")
    return runpy.run_path(str(file), run_name="__main__")


SHIPPED: list[Callable[[dict[str, Any]], Callable[[int], object]]] = [
    lambda names: names["outer"](),
    lambda names: names["Divides"]().map,
    lambda names: lambda value, gives=names["gives"]: list(gives(value)),  # type: ignore[misc]
]


@pytest.mark.parametrize("of", SHIPPED)
@pytest.mark.parametrize("pickled", [dumps, pickle_value, PickleSerializer().serialize])
def test_a_traceback_shows_the_line_of_the_script(
    of: Callable[[dict[str, Any]], Callable[[int], object]], pickled: Callable[[object], bytes], script: dict[str, Any]
) -> None:
    shipped = pickle.loads(pickled(of(script)))
    with pytest.raises(ZeroDivisionError) as raised:
        shipped(1)
    told = "".join(traceback.format_exception(raised.value))
    assert "# fails here" in told
    assert "job.py" in told
    assert "dynamic-code" not in told


def test_a_function_of_a_job_tells_its_file(script: dict[str, Any]) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1], Types.LONG()).map(script["outer"]()).print()
    job = env.build()
    programs = [load_program(job.blobs[vertex.program], vertex.name) for vertex in job.graph.vertices]
    specs = [spec for program in programs for spec in program.operators]
    (function,) = [func for spec in specs if (func := getattr(spec.options, "func", None)) is not None]
    code = getattr(function, "func", function).__code__
    assert Path(code.co_filename).name == "job.py"


def _as_before(monkeypatch: pytest.MonkeyPatch, named: type, module: str, value: object) -> bytes:
    """The pickle of a version in which the class of the value stood in another module."""
    parts = module.split(".")
    for length in range(3, len(parts) + 1):
        name = ".".join(parts[:length])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    setattr(sys.modules[module], named.__name__, named)
    monkeypatch.setattr(named, "__module__", module)
    written = dumps(value)
    monkeypatch.undo()
    assert module.encode() in written
    return written


@pytest.mark.parametrize(
    ("named", "module", "value"),
    [
        (type(Types.LONG()), "tidegate.common.records.type_information", Types.LONG()),
        (SelectOptions, "tidegate.connectors.operator_options", SelectOptions(columns=())),
    ],
    ids=["a type of records", "options of an operator"],
)
def test_what_an_earlier_version_wrote_is_read_though_its_module_has_moved(
    monkeypatch: pytest.MonkeyPatch, named: type, module: str, value: object
) -> None:
    written = _as_before(monkeypatch, named, module, value)
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(written)
    assert loads(written) == value


def test_a_module_that_nothing_has_is_missed_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    written = _as_before(monkeypatch, SelectOptions, "tidegate.connectors.never_there", SelectOptions(columns=()))
    with pytest.raises(ModuleNotFoundError, match=r"tidegate\.connectors\.never_there"):
        loads(written)


@pytest.mark.parametrize(
    ("value", "module"),
    [(Row(1), "tidegate.common.row"), (Instant(1, 2), "tidegate.common.time"), (Duration(3), "tidegate.common.time")],
    ids=["Row", "Instant", "Duration"],
)
def test_values_are_written_under_the_names_that_keys_of_earlier_checkpoints_have(value: object, module: str) -> None:
    assert module.encode() in pickle.dumps(value, protocol=5)
