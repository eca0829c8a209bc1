"""A benchmark that fell by more than 15 % against its yardstick is named, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import regressions, run
from benchmarks.regressions import Baseline, UnfitBaseline, compare, read, write

BEFORE = Baseline("1234abcd", "2026-11-26", 1000, 3, {"keyed_window": 0.8, "many_keys": 0.2})


@pytest.mark.parametrize(
    ("now", "fell"),
    [
        ({"keyed_window": 0.8, "many_keys": 0.2}, []),
        ({"keyed_window": 0.681, "many_keys": 0.171}, []),
        ({"keyed_window": 0.679, "many_keys": 0.3}, ["keyed_window"]),
        ({"keyed_window": 0.1, "many_keys": 0.1}, ["keyed_window", "many_keys"]),
        ({"many_keys": 0.1}, ["many_keys"]),
        ({"another": 0.1}, []),
    ],
)
def test_what_fell_by_more_than_it_may_is_named(now: dict[str, float], fell: list[str]) -> None:
    compared = compare(BEFORE, 1000, now)
    assert [one.part for one in compared] == [part for part in now if part in BEFORE.ratios]
    assert [one.part for one in compared if one.has_fallen] == fell
    assert [one.part for one in compared if "FELL by more than 15%" in one.says()] == fell


def test_a_line_says_both_ratios_and_the_change() -> None:
    (one,) = compare(BEFORE, 1000, {"keyed_window": 0.6})
    assert one.says() == "keyed_window: 0.60 of pyarrow, 0.80 before (-25%): FELL by more than 15%"


def test_ratios_of_other_rows_are_not_compared() -> None:
    with pytest.raises(UnfitBaseline, match="1234abcd, was taken with --rows 1000, this run with --rows 2000"):
        compare(BEFORE, 2000, {"keyed_window": 0.8})


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read(tmp_path / "none.json") is None
    write(BEFORE, tmp_path / "baseline.json")
    assert read(tmp_path / "baseline.json") == BEFORE


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is no JSON"),
        ("[]", "is no baseline"),
        ("{}", "KeyError"),
        (
            json.dumps({"commit": "1", "date": "", "rows": 1, "repeats": 1, "ratios": {"a": 0}}),
            "ratios that cannot be .a: 0",
        ),
        (json.dumps({"commit": "1", "date": "", "rows": 1, "repeats": 1, "ratios": {"a": "x"}}), "is no baseline"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(content)
    with pytest.raises(UnfitBaseline, match=why):
        read(path)


@pytest.mark.parametrize(("ratio", "code"), [(0.8, 0), (0.5, 1)])
def test_the_exit_code_tells_whether_one_fell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratio: float, code: int
) -> None:
    write(BEFORE, tmp_path / "baseline.json")
    known = read(tmp_path / "baseline.json")
    monkeypatch.setattr(regressions, "read", lambda: known)
    monkeypatch.setattr(run, "_keyed_window", lambda *_, **__: ratio)
    done = CliRunner().invoke(run.main, ["--only", "keyed_window", "--rows", "1000"])
    assert done.exit_code == code
    assert ("FELL" in done.output) == bool(code)
    other = CliRunner().invoke(run.main, ["--only", "keyed_window", "--rows", "2000"])
    assert other.exit_code == 1
    assert "take a new baseline with --write-baseline" in other.output
