"""The redacted copy of a failure: no value of a record or state is in it, and it fails again where the failure does not depend on them."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.sim.runtime.recorded_failures import RecordedFailure
from tests.sim.runtime.replayed_job import read_numbers
from tests.unit.taskmanager.runtime.collecting import CollectingSink
from tidegate.common import Row, Types
from tidegate.datastream import KeyedProcessFunction, RuntimeContext
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.functions.state import MapStateDescriptor, ValueStateDescriptor
from tidegate.model.errors import InvalidJob
from tidegate.model.program import VertexProgram
from tidegate.taskmanager.recording.failures import Failure, check_own, read_failure
from tidegate.taskmanager.replaying.redacted_replay import find_needed, redact_and_replay
from tidegate.taskmanager.replaying.redaction import names_in, redact
from tidegate.taskmanager.replaying.replay import FailureReplay

NUMBERS, VISITS = 16, 0
"""Seeds whose failures follow a checkpoint with files of state."""
PEOPLE = 7


class Visits(KeyedProcessFunction):
    """Counts visits of people, and fails at the one that is number ``most`` of its person."""

    def __init__(self, most: int) -> None:
        self._most = most

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("visits", Types.LONG()))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.STRING(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.put(value.mail, {"person": value.person})
        if len(list(self.seen.keys())) == self._most:
            raise ValueError(f"{value.person} has come too often")
        yield value.person


def person(number: int) -> Row:
    """Returns a visit, whose texts are found in files."""
    name = "Xqv" + "ABCDEFG"[number % PEOPLE] + "wyz"
    return Row(person=name, mail=f"{name}{number:04}@zjx.kqv")


def build(poison: int, world: str, **options: Any) -> BuiltJob:
    env, numbers = read_numbers(**options)
    kind = Types.ROW_NAMED(["person", "mail"], [Types.STRING(), Types.STRING()])
    visits = numbers.map(lambda row: person(row[0]), kind).uid("visits")
    keyed = visits.key_by(lambda row: row.person, Types.STRING())
    keyed.process(Visits(poison // PEOPLE), Types.STRING()).uid("count").sink_to(CollectingSink(world)).uid("out")
    return env.build()


def fail(seed: int, directory: Path, **options: Any) -> Failure:
    failure = RecordedFailure(seed, directory, **options).run()
    assert failure is not None
    assert failure.checkpoint_id > 0, "the failure has no state"
    return failure


def program_of(failure: Failure) -> VertexProgram:
    found: VertexProgram = cloudpickle.loads((failure.folder / "program").read_bytes())
    return found


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Failure:
    return fail(VISITS, tmp_path_factory.mktemp("visits"), build=build)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Failure:
    return fail(NUMBERS, tmp_path_factory.mktemp("numbers"))


def test_no_text_is_left_and_it_fails_at_the_same_record(visits: Failure, tmp_path: Path) -> None:
    assert any(b"zjx.kqv" in path.read_bytes() for path in files_of(visits.folder)), "the original has no text either"
    found = redact_and_replay(visits, lambda: program_of(visits), tmp_path / "copy", set(), tmp_path)
    assert found.is_same
    assert found.original.reproduced
    assert found.outcome.record == found.original.record
    for path in files_of(tmp_path / "copy"):
        assert b"zjx" not in path.read_bytes(), path
        assert b"Xqv" not in path.read_bytes() or path.name == "program", path
    assert "has come too often" in found.copy.message
    assert found.redacted.merged == 0


def test_the_copy_is_a_failure_that_is_replayed_like_any_other(visits: Failure, tmp_path: Path) -> None:
    redact_and_replay(visits, lambda: program_of(visits), tmp_path / "copy", set(), tmp_path)
    copy = read_failure(tmp_path / "copy")
    check_own(copy.folder)
    for path in (copy.folder, *copy.folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    outcome = FailureReplay(copy, program_of(copy), tmp_path).run()
    assert outcome.reproduced
    assert outcome.error is not None
    assert outcome.error.message == copy.message
    assert (copy.location, copy.label) == ("", visits.label)


def test_fields_that_are_kept_stay(visits: Failure, tmp_path: Path) -> None:
    found = redact_and_replay(visits, lambda: program_of(visits), tmp_path / "copy", {"person", "key"}, tmp_path)
    assert found.outcome.value.person == found.original.value.person
    assert found.outcome.value.mail != found.original.value.mail


def test_a_failure_that_depends_on_a_value_names_the_field(numbers: Failure, tmp_path: Path) -> None:
    def load() -> VertexProgram:
        return program_of(numbers)

    assert names_in(numbers, load()) == ["value", "ts", "key", "digest", "values", "fired"]
    found = redact_and_replay(numbers, load, tmp_path / "copy", {"key", "ts"}, tmp_path)
    assert not (found.is_same and found.outcome.value == found.original.value)
    assert find_needed(numbers, load, {"key", "ts"}, tmp_path) == ["value"]
    kept = redact_and_replay(numbers, load, tmp_path / "kept", {"value"}, tmp_path)
    assert kept.is_same
    assert kept.outcome.error is not None
    assert kept.original.error is not None
    assert kept.outcome.error.message != kept.original.error.message, "the state is the same"


@pytest.mark.parametrize(
    "kind", ["source", "window", "batches", "connected", "broadcast", "joined", "pattern", "forgetful"]
)
def test_with_all_fields_kept_every_kind_fails_again(kind: str, tmp_path: Path) -> None:
    failure = RecordedFailure(18, tmp_path / "kept", kind=kind).run()
    assert failure is not None
    keep = set(names_in(failure, program_of(failure)))
    found = redact_and_replay(failure, lambda: program_of(failure), tmp_path / "copy", keep, tmp_path)
    assert found.is_same
    assert found.outcome.error is not None
    assert found.outcome.error.message == failure.message


def test_a_copy_that_does_not_fail_says_nothing_of_the_exception(numbers: Failure, tmp_path: Path) -> None:
    def load() -> VertexProgram:
        return program_of(numbers)

    for number in range(20):
        folder = tmp_path / str(number)
        found = redact_and_replay(numbers, load, folder, set(), tmp_path)
        if found.outcome.error is None:
            said = json.loads((folder / "failure.json").read_text())
            assert (
                said["message"]
                == "ValueError; what it said is left out, since it may hold data, and the copy does not fail"
            )
            assert said["details"] == ""
            return
    raise AssertionError("each copy fails")


def test_a_folder_that_is_there_is_left_alone(visits: Failure, tmp_path: Path) -> None:
    with pytest.raises(InvalidJob, match="is there already"):
        redact(visits, program_of(visits), tmp_path, set())
    assert list(tmp_path.iterdir()) == []


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
