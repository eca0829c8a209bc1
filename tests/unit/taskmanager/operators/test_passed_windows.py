from __future__ import annotations

from taskmanager.operators.passed_windows import MIN_PATIENCE_ROWS, PassedWindows

HALF = MIN_PATIENCE_ROWS // 2


def after(passed: PassedWindows, *windows: int, rows: int = HALF) -> list[int]:
    """A batch with rows of these windows."""
    for window in windows:
        passed.seen(window)
    return passed.after(rows)


def test_a_window_is_passed_when_patience_has_run_out_since_its_last_row() -> None:
    passed = PassedWindows()
    assert after(passed, 7) == []
    assert after(passed, 7, 8) == []
    assert after(passed, 8) == []
    assert after(passed, 8) == [7]
    assert after(passed, 8) == []


def test_the_only_window_is_never_passed() -> None:
    passed = PassedWindows()
    assert [after(passed, 7) for _ in range(9)] == [[]] * 9
    assert [after(passed) for _ in range(9)] == [[]] * 9


def test_windows_that_rows_still_come_for_stay_however_disordered_the_stream_is() -> None:
    passed = PassedWindows()
    assert [after(passed, 7, 9, 8) for _ in range(9)] == [[]] * 9


def test_patience_grows_when_rows_come_back_and_shrinks_with_watermarks() -> None:
    passed = PassedWindows()
    after(passed, 7)
    assert [found for _ in range(3) for found in after(passed, 8)] == [7]
    after(passed, 7, 8)
    assert passed.patience_rows == 4 * MIN_PATIENCE_ROWS
    assert [after(passed, 8) for _ in range(6)] == [[]] * 6
    for _ in range(3):
        passed.forget(6)
    assert passed.patience_rows == MIN_PATIENCE_ROWS


def test_what_a_watermark_or_a_barrier_sent_on_is_not_passed_again() -> None:
    passed = PassedWindows()
    after(passed, 7, 8)
    passed.forget(7)
    assert [after(passed, 9) for _ in range(4)] == [[], [8], [], []]
    passed.forget(None)
    assert [after(passed, 10) for _ in range(4)] == [[]] * 4
    after(passed, 9)
    assert passed.patience_rows == MIN_PATIENCE_ROWS  # a barrier sent it, which was not too early
