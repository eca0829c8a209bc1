"""What the page shows of the state in a real checkpoint, and what bounds it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.tidegate.state_reader.real_checkpoint import KEYS, two_checkpoints
from tidegate.model.errors import Misuse, StorageError
from tidegate.state_reader import browsing
from tidegate.state_reader.browsing import BrowseRequest, answer


@pytest.fixture(scope="module")
def location() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield two_checkpoints(Path(path), "browsing")[0]


def test_operators_and_states_are_listed(location: str) -> None:
    operators = answer(BrowseRequest(location))["operators"]
    (remember,) = [operator for operator in operators if operator["title"] == "remember"]
    states = {each["name"]: (each["kind"], each["rows"], each["is_keyed"]) for each in remember["states"]}
    assert states["count"] == ("value", KEYS, True)
    assert states["by-parity"] == ("map", KEYS, True)
    assert remember["parallelism"] == 2
    assert all(operator["left_out"] == 0 for operator in operators)


def test_rows_come_page_by_page(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "ROWS", 4)
    seen: list[list[str]] = []
    while True:
        found = answer(BrowseRequest(location, "remember", "count", first=len(seen)))
        seen += found["rows"]
        assert (found["kind"], found["total"], found["columns"][:2]) == ("value", KEYS, ["key_group", "key"])
        if not found["has_more"]:
            break
    assert sorted(int(row[1]) for row in seen) == list(range(KEYS))


def test_a_key_is_looked_up_and_nothing_pickled_runs(location: str) -> None:
    found = answer(BrowseRequest(location, "remember", "session", key="3"))
    ((_, key, session),) = found["rows"]
    assert (key, found["has_more"], found["total"]) == ("3", False, None)
    assert session.startswith("<tests.unit.tidegate.state_reader.real_checkpoint.Session, ")


def test_when_timers_fire_and_windows_end_are_times(location: str) -> None:
    timers = answer(BrowseRequest(location, "remember", "_timers.event", key="3"))
    at = timers["columns"].index("timestamp")
    assert [row[at] for row in timers["rows"]] == ["1970-01-01T02:46:40.003Z"]
    operators = answer(BrowseRequest(location))["operators"]
    ((operator, state),) = [
        (operator["id"], each["name"])
        for operator in operators
        if operator["name"] == "sum"
        for each in operator["states"]
        if each["is_keyed"]
    ]
    windows = answer(BrowseRequest(location, operator, state))
    end = windows["columns"].index("window_end")
    assert {row[end] for row in windows["rows"]} == {"1970-01-12T13:46:40.000Z"}


def test_operator_state_is_shown_and_has_no_keys(location: str) -> None:
    operators = answer(BrowseRequest(location))["operators"]
    ((operator, state),) = [
        (operator["id"], each["name"])
        for operator in operators
        for each in operator["states"]
        if each["name"] == "splits"
    ]
    assert len(answer(BrowseRequest(location, operator, state))["rows"]) == 2
    with pytest.raises(Misuse, match="not keyed"):
        answer(BrowseRequest(location, operator, state, key="3"))


def test_what_is_large_is_cut_or_left_to_a_program(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "CELL_CHARACTERS", 10)
    found = answer(BrowseRequest(location, "remember", "session"))
    assert all(row[2].endswith("…") and len(row[2]) == 10 for row in found["rows"])
    monkeypatch.setattr(browsing, "FILE_BYTES", 10)
    with pytest.raises(Misuse, match="tidegate state show .* --operator remember --name count"):
        answer(BrowseRequest(location, "remember", "count"))


def test_the_process_answers_in_json_and_says_what_is_wrong(location: str) -> None:
    def run(**request: object) -> dict[str, object]:
        command = [sys.executable, "-P", "-m", "tidegate.state_reader.browsing", json.dumps(request)]
        found: dict[str, object] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return found

    assert len(run(path=location, operator="remember", state="count", key="", first=0)["rows"]) == KEYS  # type: ignore[arg-type]
    assert "no state 'nothing'" in str(run(path=location, operator="remember", state="nothing")["error"])
    with pytest.raises(StorageError):
        answer(BrowseRequest(location + "-not-there"))
