"""A warning that comes again and again is logged some times and then counted."""

from __future__ import annotations

import logging
from pathlib import Path

from tidegate.aio.logs import set_up_logging
from tidegate.aio.repetitions import MOST_IN_A_WINDOW, MOST_KINDS, WINDOW_S, Repetitions


class Log:
    """A log whose records have times of ours."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._repetitions = Repetitions(lambda record: self.lines.append(record.getMessage()))

    def add(self, text: str, at_s: float, level: int = logging.WARNING, name: str = "x") -> None:
        record = logging.LogRecord(name, level, "x.py", 1, "%s", (text,), None)
        record.created = at_s
        if self._repetitions.filter(record):
            self.lines.append(text)


def test_the_first_ones_are_logged_and_the_others_are_summed_up() -> None:
    log = Log()
    for number in range(1000):
        log.add(f"no descriptor for 10.0.0.{number % 256}:{number}", number / 1000)
    assert len(log.lines) == MOST_IN_A_WINDOW
    log.add("something else", WINDOW_S + 2.0)
    assert log.lines[MOST_IN_A_WINDOW:] == [
        f"{1000 - MOST_IN_A_WINDOW} more messages like this in 10 s, the last: no descriptor for 10.0.0.231:999",
        "something else",
    ]


def test_a_window_ends_while_a_flood_goes_on() -> None:
    log = Log()
    for number in range(6000):
        log.add(f"refused {number}", number / 100)
    assert sum("more messages like this" in line for line in log.lines) == 5
    assert len(log.lines) == 6 * MOST_IN_A_WINDOW + 5


def test_different_ones_do_not_count_together() -> None:
    log = Log()
    for number in range(2 * MOST_IN_A_WINDOW):
        log.add("a", 0.0, name=f"logger-{number % 2}")
        log.add("progress", 0.0, logging.INFO)
    assert len(log.lines) == 4 * MOST_IN_A_WINDOW


def test_what_is_remembered_is_bounded() -> None:
    log = Log()
    for number in range(3 * MOST_KINDS):
        log.add("x" * (number % 150) + "y" * (number // 150), 0.0)
    assert len(log._repetitions._kinds) <= MOST_KINDS


def test_a_log_file_of_a_flood_is_small(tmp_path: Path) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for handler in handlers:
        root.removeHandler(handler)
    try:
        set_up_logging("INFO", tmp_path / "log", None)
        for number in range(20_000):
            logging.getLogger("x").warning("connection %d is refused: %s", number, "because " * 20)
    finally:
        for handler in list(root.handlers):
            root.removeHandler(handler)
            handler.close()
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(level)
    assert (tmp_path / "log").stat().st_size < 100_000
