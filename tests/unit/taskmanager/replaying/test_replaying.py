"""A kept failure: who may open it, what can be looked at, and whether a changed function still fails."""

from __future__ import annotations

import io
import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import cloudpickle
import pytest

from tests.sim.runtime import replayed_job
from tests.sim.runtime.recorded_failures import RecordedFailure
from tidegate.model.errors import CorruptData, InvalidJob, NotPermitted, NotSigned
from tidegate.model.program import VertexProgram
from tidegate.operator_options import FunctionOptions
from tidegate.security.signing import Signing
from tidegate.taskmanager.recording.failures import Failure, list_failures, read_deployment, read_failure
from tidegate.taskmanager.replaying.observers import Both, BreakAt, UserPdb, WatchState
from tidegate.taskmanager.replaying.opening import find_failure, open_program
from tidegate.taskmanager.replaying.replay import FailureReplay, ReplayOutcome
from tidegate.taskmanager.runtime.operator_factory import options_of
from tidegate.wire.convert_deployment import deployment_to_bytes

SEED = 16
"""One whose failure follows a checkpoint with files of state, and comes while another one is under way."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Failure, int]:
    """A failure, and the value at which it came."""
    world = RecordedFailure(SEED, tmp_path_factory.mktemp("kept"))
    failure = world.run()
    assert failure is not None
    return failure, world.poison


@pytest.fixture
def failure(kept: tuple[Failure, int], tmp_path: Path) -> Failure:
    """A copy, which may be damaged."""
    copy = tmp_path / "failures" / kept[0].failure_id
    shutil.copytree(kept[0].folder, copy)
    return read_failure(copy)


def program_of(failure: Failure) -> VertexProgram:
    found: VertexProgram = cloudpickle.loads((failure.folder / "program").read_bytes())
    return found


def run(failure: Failure, observer: Both | None = None) -> ReplayOutcome:
    return FailureReplay(failure, program_of(failure), failure.folder.parent, observer=observer).run()


def test_it_fails_again_at_the_record(kept: tuple[Failure, int]) -> None:
    outcome = run(kept[0])
    assert (outcome.reproduced, outcome.differences, outcome.chance) == (True, [], [])
    assert next(iter(outcome.value)) == kept[1]
    assert outcome.at == f"at record {outcome.record}"
    assert isinstance(outcome.user_error, ValueError)
    assert outcome.error is not None
    assert outcome.error.message == kept[0].message


def test_two_replays_emit_the_same(failure: Failure) -> None:
    first, second = run(failure), run(failure)
    assert first.outputs.count > 0
    assert (first.outputs.count, first.outputs.digest) == (second.outputs.count, second.outputs.digest)


def test_only_the_user_can_read_what_is_kept(kept: tuple[Failure, int]) -> None:
    folder = kept[0].folder
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.parametrize("name", ["", "program", "segments/000001.segment", "failure.json"])
def test_what_others_can_write_is_not_opened(failure: Failure, name: str) -> None:
    path = failure.folder / name
    if name.startswith("segments"):
        path = next((failure.folder / "segments").iterdir())
    path.chmod(0o722 if path.is_dir() else 0o622)
    with pytest.raises(NotPermitted, match="not yours alone"):
        read_failure(failure.folder)
    assert list_failures(failure.folder.parent) == []


def test_a_link_is_not_followed(failure: Failure, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes((failure.folder / "program").read_bytes())
    (failure.folder / "program").unlink()
    (failure.folder / "program").symlink_to(tmp_path / "other")
    with pytest.raises(NotPermitted):
        read_failure(failure.folder)


def test_a_program_that_is_not_signed_is_not_opened(failure: Failure, tmp_path: Path) -> None:
    with pytest.raises(NotSigned, match="not signed"):
        open_program(failure, Signing((b"a key of the user",)), tmp_path)
    assert open_program(failure, None, tmp_path).operators[0].kind == "keyed_process"


def test_a_program_that_was_exchanged_is_not_opened(failure: Failure, tmp_path: Path) -> None:
    (failure.folder / "program").write_bytes(cloudpickle.dumps("another"))
    with pytest.raises(CorruptData, match="altered or damaged"):
        open_program(failure, None, tmp_path)


@pytest.mark.parametrize("name", ["deployment", "failure.json", "segments/*", "state/*"])
def test_what_is_gone_or_damaged_is_one_clear_error(failure: Failure, name: str) -> None:
    paths = sorted(failure.folder.glob(name))
    assert paths, "the failure has no such file"
    path = paths[0]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptData, match=str(path)):
        run(read_failure(failure.folder))
    path.unlink()
    with pytest.raises((CorruptData, InvalidJob), match=str(failure.folder)):
        run(read_failure(failure.folder))


def test_an_id_its_beginning_or_a_path_finds_it(failure: Failure) -> None:
    place = failure.folder.parent
    for said in (failure.failure_id, failure.failure_id[:-2], str(failure.folder)):
        assert find_failure(place, said).folder == failure.folder
    with pytest.raises(InvalidJob, match="holds no failure whose id begins with"):
        find_failure(place, "2001")


def test_another_version_is_refused(failure: Failure) -> None:
    path = failure.folder / "failure.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.raises(InvalidJob, match="another version"):
        read_failure(failure.folder)


def test_a_state_is_watched_before_and_after_each_record(failure: Failure) -> None:
    watch = WatchState("digest", 1_000)
    outcome = run(failure, Both([watch]))
    assert outcome.reproduced
    assert len(watch.rows) == outcome.records
    last = watch.rows[-1]
    assert last.number == outcome.record
    assert last.after == "(it failed)"
    by_key = {row.key: row for row in list(watch.rows)[:-1]}
    assert last.before.isdigit()
    assert all(int(row.after) != int(row.before) for row in by_key.values() if row.before != "None")


def test_a_state_that_is_not_there_is_named_with_those_that_are(failure: Failure) -> None:
    outcome = run(failure, Both([WatchState("valuse", 10)]))
    assert isinstance(outcome.raised, InvalidJob)
    assert "it has: digest, fired, values" in outcome.raised.message


def test_the_debugger_stops_in_the_users_function(failure: Failure) -> None:
    told: list[str] = []
    written = io.StringIO()

    def scripted() -> UserPdb:
        return UserPdb(
            nosigint=True, readrc=False, stdin=io.StringIO("where\nnext\nnext\np found\ncontinue\n"), stdout=written
        )

    number = run(failure).record
    assert number is not None
    stop = BreakAt(number - 1, told.append, scripted)
    assert run(failure, Both([stop])).reproduced
    assert stop.was_reached
    assert told[0].startswith(f"before record {number - 1}: Row(")
    assert "replayed_job.py" in written.getvalue()


def test_a_changed_function_gets_the_same_records(failure: Failure) -> None:
    program = program_of(failure)
    head = program.operators[0]
    mended = replace(options_of(head, FunctionOptions), func=replayed_job.Fragile(-1))
    changed = replace(program, operators=(replace(head, options=mended), *program.operators[1:]))
    outcome = FailureReplay(failure, changed, failure.folder.parent, exact=False).run()
    assert outcome.error is None
    assert outcome.differences == []
    assert outcome.records >= (run(failure).record or 0)


def test_what_does_not_fail_is_named(failure: Failure) -> None:
    program = program_of(failure)
    head = program.operators[0]
    other = replace(options_of(head, FunctionOptions), func=replayed_job.Fragile(-1))
    changed = replace(program, operators=(replace(head, options=other), *program.operators[1:]))
    outcome = FailureReplay(failure, changed, failure.folder.parent).run()
    assert not outcome.reproduced
    assert outcome.differences == ["the replay came to the end of the recording and did not fail"]


def test_state_of_a_checkpoint_is_replayed_on_disk_too(failure: Failure) -> None:
    deployment = read_deployment(failure)
    on_disk = replace(deployment, configuration={**deployment.configuration, "state.backend.type": "rocksdb"})
    (failure.folder / "deployment").write_bytes(deployment_to_bytes(on_disk))
    outcome = run(failure)
    assert (outcome.reproduced, outcome.differences) == (True, [])


def test_operators_that_cannot_be_replayed_are_refused_by_name(failure: Failure) -> None:
    program = program_of(failure)
    changed = replace(program, operators=(replace(program.operators[0], kind="async_wait"), *program.operators[1:]))
    with pytest.raises(InvalidJob, match=r"operator 'KEYED PROCESS' cannot be replayed: it calls coroutines"):
        FailureReplay(failure, changed, failure.folder.parent)
