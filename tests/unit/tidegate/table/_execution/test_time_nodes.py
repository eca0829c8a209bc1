"""Temporal joins, sorts by time, rows of sessions, windows by the session's clock, and ``OVER`` in streaming mode: Flink's changelogs (``recorded_time``)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from tests.unit.tidegate.table._execution.plan_run import PlanRun, file_rows, folded
from tests.unit.tidegate.table._execution.recorded_changelogs import Change, Statement, names, statement
from tidegate.plan import UnsupportedPlan

_RECORDING = "recorded_time"
_CONFIGURATION = {"pipeline.auto-watermark-interval": "1 ms"}
_BY_THE_CLOCK = {
    "over-proctime-range", "pt-dedup", "pt-grouping-sets", "pt-session-rows", "pt-topn", "pt-tumble-time", "sort-proctime",
}  # fmt: skip
"""Planned alone: what they give depends on when rows come."""
_ORDER_OF_FILES = "temporal-late"
_OWN_ORDER = {"temporal-null-key", "temporal-two-keys", "temporal-updates-left", "temporal-null-inner"}
"""Rows of several keys that are due together come in the order of Flink's timers."""
_RUN = [
    name
    for name in names(_RECORDING)
    if not statement(name, _RECORDING).fails and name not in _BY_THE_CLOCK and name != _ORDER_OF_FILES
]


def _run(recorded: Statement) -> PlanRun:
    return PlanRun(recorded.plan, configuration=_CONFIGURATION, zone=recorded.zone)


@pytest.mark.parametrize("name", _RUN)
def test_a_statement_has_the_changelog_of_flink(name: str) -> None:
    recorded = statement(name, _RECORDING)
    with _run(recorded) as run:
        run.push_files(recorded.files)
        found = run.changes()
    if recorded.is_exact and name not in _OWN_ORDER:
        assert found == list(recorded.changes)
    else:
        assert folded(found) == folded(recorded.changes)


@pytest.mark.parametrize("name", [name for name in names(_RECORDING) if statement(name, _RECORDING).fails])
def test_what_flink_refuses_is_refused_in_its_words(name: str) -> None:
    recorded = statement(name, _RECORDING)
    assert recorded.error is not None
    with pytest.raises(UnsupportedPlan) as raised:
        _run(recorded)
    assert recorded.error.partition(": ")[2].rstrip(".") in str(raised.value)


def test_a_late_row_joins_with_the_versions_that_are_left() -> None:
    """The versions of its time are gone, as in Flink, where the table is ahead."""
    recorded = statement(_ORDER_OF_FILES, _RECORDING)
    with _run(recorded) as run:
        for index in (1, 0):
            for row in file_rows(run.scans[index], recorded.files):
                run.push(index, [row])
        run.finish()
        assert folded(run.changes()) == folded(recorded.changes)
        assert "9" not in [row[0] for _, row in run.changes()]


@pytest.mark.parametrize(
    "name",
    ["temporal-left", "sort-time-late", "sort-time-more", "session-rows-key", "session-topn", "nontime-updates-ties", "nontime-range",
     "ltz-session-rows", "rank-stream-variable-updates", "ties-rank-sum"],
)  # fmt: skip
@pytest.mark.parametrize("cut", [1, 7])
def test_state_goes_through_a_snapshot(name: str, cut: int) -> None:
    recorded = statement(name, _RECORDING)
    with _run(recorded) as run:
        left = [list(file_rows(scan, recorded.files)) for scan in run.scans]
        _push_some(run, left, cut)
        snapshot = run.harness.snapshot()
        found = run.changes()
    with PlanRun(recorded.plan, configuration=_CONFIGURATION, zone=recorded.zone, restore=snapshot) as run:
        _push_some(run, left, 100)
        run.finish()
        found += run.changes()
    assert folded(found) == folded(recorded.changes)


def _push_some(run: PlanRun, left: Sequence[list[list[str | None]]], count: int) -> None:
    for index, rows in enumerate(left):
        for row in rows[:count]:
            run.push(index, [row])
        del rows[:count]


# --- by the clock ------------------------------------------------------------------------------------


def _by_the_clock(name: str, moments: Sequence[int], ends: int, zone: str = "UTC") -> list[Change]:
    """The first rows of the file, each at its moment in ms; then the clock goes on to ``ends``."""
    recorded = statement(name, _RECORDING)
    with PlanRun(recorded.plan, zone=zone) as run:
        rows = file_rows(run.scans[0], recorded.files)
        for moment, row in zip(moments, rows, strict=False):
            run.harness.advance_processing_time(moment)
            run.push(0, [row])
        run.harness.advance_processing_time(ends)
        return run.changes()


def test_rows_have_windows_by_the_time_when_they_come() -> None:
    found = _by_the_clock("pt-grouping-sets", [5_000, 5_998, 6_000], 6_999)
    assert folded(found) == sorted(
        [
            ("1970-01-01 00:00:05.000", "pen", None, "1"), ("1970-01-01 00:00:05.000", "ink", None, "1"),
            ("1970-01-01 00:00:05.000", None, "ann", "1"), ("1970-01-01 00:00:05.000", None, "bob", "1"),
            ("1970-01-01 00:00:05.000", None, None, "2"), ("1970-01-01 00:00:06.000", "ink", None, "1"),
            ("1970-01-01 00:00:06.000", None, "ann", "1"), ("1970-01-01 00:00:06.000", None, None, "1"),
        ],
        key=repr,
    )  # fmt: skip
    local = _by_the_clock("pt-grouping-sets", [5_000], 5_999, "Asia/Kolkata")
    assert {row[0] for _, row in local} == {"1970-01-01 05:30:05.000"}


def test_a_session_of_processing_time_ends_when_no_row_has_come_for_its_gap() -> None:
    moments = [1_000, 1_500, 4_000]
    assert _by_the_clock("pt-session-rows", moments, 4_000) == [("+I", ("1", "TRUE")), ("+I", ("2", "TRUE"))]
    assert [row[0] for _, row in _by_the_clock("pt-session-rows", moments, 5_000)] == ["1", "2", "3"]


def test_first_rows_of_windows_of_processing_time_come_when_they_end() -> None:
    moments = [1_000, 1_100, 1_200, 2_100]
    assert _by_the_clock("pt-topn", moments[:3], 1_998) == []
    assert _by_the_clock("pt-topn", moments, 2_998) == [("+I", ("2", "1")), ("+I", ("3", "2"))]
    assert [row[0] for _, row in _by_the_clock("pt-dedup", moments, 4_000)] == ["1", "2", "4"]


def test_rows_of_one_ms_are_taken_together_over_a_span_of_processing_time() -> None:
    hour = 3_600_000
    moments = [10, 10, 10, 10, 11, 12, hour + 11]  # items: pen, ink, ink, pen, pen, cap, pen
    found = _by_the_clock("over-proctime-range", moments, 2 * hour)
    assert [row for _, row in found] == [
        ("1", "2"), ("4", "2"), ("2", "2"), ("3", "2"), ("5", "3"), ("6", "1"), ("7", "2"),
    ]  # fmt: skip
    assert len(_by_the_clock("over-proctime-range", moments[:1], 10)) == 0, "more rows of this ms may come"


def test_rows_of_one_ms_are_sorted_by_what_stands_behind_processing_time() -> None:
    found = _by_the_clock("sort-proctime", [10, 10, 10, 11], 20)
    assert [row for _, row in found] == [("2",), ("3",), ("1",), ("4",)]


def test_windows_of_a_day_follow_the_clock_of_the_session() -> None:
    """A day of New York begins at 4 or 5 o'clock of UTC; the shift of March has 23 hours."""
    recorded = statement("ltz-tumble-ny", _RECORDING)
    rows: list[Sequence[str | None]] = [
        (time,) for time in ("2026-03-07 23:59:59", "2026-03-08 00:00:00", "2026-03-08 23:59:59", "2026-03-09 00:00:01")
    ]
    with _run(recorded) as run:
        run.push(0, rows)
        run.finish()
        found = [row for _, row in run.changes()]
    assert found == [
        ("2026-03-07 00:00:00.000", "2026-03-08 00:00:00.000", "1"),
        ("2026-03-08 00:00:00.000", "2026-03-09 00:00:00.000", "2"),
        ("2026-03-09 00:00:00.000", "2026-03-10 00:00:00.000", "1"),
    ]


def test_names_of_recordings_are_all_tried() -> None:
    tried = set(itertools.chain(_RUN, _BY_THE_CLOCK, [_ORDER_OF_FILES]))
    assert tried | {name for name in names(_RECORDING) if statement(name, _RECORDING).fails} == set(names(_RECORDING))


@pytest.mark.parametrize("option", ["early-fire", "late-fire"])
def test_windows_of_group_by_that_shall_emit_more_than_once_are_refused_by_the_option(option: str) -> None:
    recorded = statement("ltz-legacy-ny", _RECORDING)
    given = {f"table.exec.emit.{option}.enabled": "true", f"table.exec.emit.{option}.delay": "1 s"}
    with pytest.raises(
        UnsupportedPlan, match=f"table.exec.emit.{option}.enabled is not supported, since a window emits only once"
    ):
        PlanRun(recorded.plan, zone=recorded.zone, options=given)
    off = {**given, f"table.exec.emit.{option}.enabled": "false", "table.exec.emit.allow-lateness": "1 h"}
    with PlanRun(recorded.plan, configuration=_CONFIGURATION, zone=recorded.zone, options=off) as run:
        run.push_files(recorded.files)
        assert folded(run.changes()) == folded(recorded.changes)
