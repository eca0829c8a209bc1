"""`tidegate state` on real checkpoints."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.cli.test_commands import refused, tidegate
from tests.unit.tidegate.state_reader.real_checkpoint import KEYS, two_checkpoints
from tidegate.state_reader.rows import time_text


@pytest.fixture(scope="module")
def locations() -> Iterator[list[str]]:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield two_checkpoints(Path(path), "cli")


def shown(*arguments: object) -> list[str]:
    result = tidegate("state", *arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout.splitlines()


def test_list_tells_operators_and_states(locations: list[str]) -> None:
    lines = shown("list", locations[0])
    assert lines[0].startswith("checkpoint ")
    assert "5 operators" in lines[0]
    (about,) = [line for line in lines if line.startswith("remember: ")]
    assert "uid 'remember', id " in about
    assert about.endswith("parallelism 2 of at most 16")
    rows = [line.split() for line in lines]
    assert ["count", "value", "KEY_GROUPS", "10"] in [row[:4] for row in rows]
    assert ["splits", "union", "UNION", "2"] in [row[:4] for row in rows]


def test_show_one_key_as_a_table_and_as_json(locations: list[str]) -> None:
    lines = shown("show", locations[0], "--operator", "remember", "--name", "count", "--key", 3)
    assert lines[0] == "count (value): 1 rows of key 3"
    assert lines[1].split() == ["key_group", "key", "value"]
    (row,) = map(json.loads, shown("show", locations[0], "--operator", "last", "--key", "k3", "--format", "json"))
    assert (row["state"], row["key"], row["value"] % KEYS) == ("last", "k3", 3)
    assert lines[3].split()[1] == "3"


def test_show_says_how_much_more_there_is(locations: list[str]) -> None:
    lines = shown("show", locations[0], "--operator", "windows", "--limit", 4)
    assert lines[0] == "windows (columnar_windows): 4 of 10 rows"
    assert lines[-1].startswith("... 6 more")
    assert len(lines) == 8


def test_bounds_of_windows_are_times_in_tables_and_numbers_in_json(locations: list[str]) -> None:
    header, _, first = shown("show", locations[0], "--operator", "windows", "--limit", 1)[1:4]
    row = dict(zip(header.split(), first.split(), strict=True))
    (told,) = map(json.loads, shown("show", locations[0], "--operator", "windows", "--limit", 1, "--format", "json"))
    assert row["window_end"] == time_text(told["window_end"])
    assert row["window_end"].endswith("Z")
    assert isinstance(told["window_start"], int)


def test_what_is_pickled_is_named(locations: list[str]) -> None:
    lines = shown("show", locations[0], "--operator", "remember", "--name", "session")
    assert "real_checkpoint.Session, " in lines[3]
    rows = shown("show", locations[0], "--operator", "remember", "--name", "session", "--format", "json")
    assert json.loads(rows[0])["value"]["type"].endswith("Session")


def test_parquet_and_json_files(locations: list[str], tmp_path: Path) -> None:
    path = tmp_path / "count.parquet"
    arguments = ["--operator", "remember", "--name", "session", "--output", path]
    shown("show", locations[0], *arguments, "--format", "parquet")
    assert pq.read_table(path).schema.names == ["key_group", "key", "value", "value_type"]
    shown("show", locations[0], *arguments, "--format", "json")
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == KEYS


def test_diff_counts_and_gives_examples(locations: list[str]) -> None:
    lines = shown("diff", *locations, "--examples", 1)
    assert ["remember", "count", "10", "0", "0", "10"] in [line.split() for line in lines]
    at = lines.index("remember, count:")
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["~", "key", "~"]
    assert lines[at + 3] == "  ~ ... 9 more"
    assert tidegate("state", "diff", "--exit-code", *locations).exit_code == 1
    same = tidegate("state", "diff", "--exit-code", locations[0], locations[0])
    assert (same.exit_code, same.stdout.splitlines()[-1]) == (0, "No state differs.")


def test_misuse_is_one_line(locations: list[str], tmp_path: Path) -> None:
    show = ["state", "show", locations[0], "--operator"]
    assert "no operator 'x' in " in refused(tidegate(*show, "x"), 2)
    assert "has no state 'x'" in refused(tidegate(*show, "remember", "--name", "x"), 2)
    assert "no key can be 'x'" in refused(tidegate(*show, "remember", "--key", "x"), 2)
    assert "has no keyed state: leave --key out" in refused(tidegate(*show, "rows", "--key", "x"), 2)
    parquet = [*show, "remember", "--format", "parquet"]
    assert refused(tidegate(*parquet), 2) == "--format parquet needs --output FILE"
    assert "with --name" in refused(tidegate(*parquet, "--output", tmp_path / "x"), 2)


def test_what_cannot_be_read_or_written_is_one_line(locations: list[str], tmp_path: Path) -> None:
    assert "there is no such directory" in refused(tidegate("state", "list", tmp_path / "none"), 1)
    show = ["state", "show", locations[0], "--operator", "remember", "--name", "count"]
    gone = tmp_path / "none" / "x"
    assert refused(tidegate(*show, "--output", gone), 1) == f"cannot write {gone}: No such file or directory"
    copy = shutil.copytree(locations[0], tmp_path / "chk")
    path = sorted(copy.glob("remember-count-*"))[0]
    path.write_bytes(path.read_bytes()[::-1])
    line = refused(tidegate("state", "show", copy, "--operator", "remember", "--name", "count"), 1)
    assert line.startswith(f"state file {path} is damaged")


def test_json_is_a_line_for_each_state_and_each_difference(locations: list[str]) -> None:
    found = [json.loads(line) for line in shown("list", "--json", locations[0])]
    (count,) = [one for one in found if one["state"] == "count"]
    assert (count["operator"], count["uid"], count["kind"], count["rows"]) == ("remember", "remember", "value", 10)
    arguments = ["--operator", "last", "--key", "k3"]
    assert shown("show", locations[0], *arguments, "--json") == shown(
        "show", locations[0], *arguments, "--format", "json"
    )
    assert shown("show", locations[0], *arguments, "--format", "table")[0].startswith("last ")
    refused = tidegate("state", "show", locations[0], *arguments, "--format", "parquet", "--json")
    assert (refused.exit_code, "give one of them" in refused.stderr) == (2, True), refused.output
    differences = [json.loads(line) for line in shown("diff", "--json", locations[0], locations[1])]
    (changed,) = [one for one in differences if one["state"] == "count"]
    assert changed["changed"] > 0
    assert changed["before"] == 10
    assert tidegate("state", "diff", "--json", "--exit-code", *locations).exit_code == 1
