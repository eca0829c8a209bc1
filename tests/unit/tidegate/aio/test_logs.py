"""The two forms of a line: text for people, JSON for what gathers logs."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from tidegate.aio.logs import EXCEPTION_MAX, MESSAGE_MAX, JsonFormatter, LineFormatter, with_ids
from tidegate.aio.stimulus import belonging_to


def record(message: object, *arguments: object, failed: bool = False) -> logging.LogRecord:
    info = None
    if failed:
        try:
            raise ValueError("no such file")
        except ValueError:
            info = sys.exc_info()
    made = logging.LogRecord("jobmanager", logging.WARNING, __file__, 1, message, arguments or None, info)
    made.created, made.msecs = 1_800_000_000.25, 250.0
    return made


COMPLETED = with_ids("checkpoint completed", job="ab12", checkpoint=7, path=None)


def test_a_line_of_text_has_its_ids_behind_it() -> None:
    line = LineFormatter().format(record("%s", COMPLETED))
    assert line.endswith("WARN  jobmanager - checkpoint completed [job=ab12 checkpoint=7]")


def test_the_event_that_is_handled_is_the_last_id() -> None:
    with belonging_to("18"):
        assert LineFormatter().format(record("%s", COMPLETED)).endswith(" [job=ab12 checkpoint=7 stimulus=18]")
        assert LineFormatter().format(record("lost %s", "a peer")).endswith(" - lost a peer [stimulus=18]")
        assert json.loads(JsonFormatter().format(record("lost %s", "a peer")))["stimulus"] == "18"
    assert "stimulus" not in LineFormatter().format(record("%s", COMPLETED))


def test_a_json_line_has_its_ids_as_fields() -> None:
    for written in (record("%s", COMPLETED), record(COMPLETED)):
        assert json.loads(JsonFormatter().format(written)) == {
            "time": "2027-01-15T08:00:00.250Z",
            "level": "WARN",
            "logger": "jobmanager",
            "message": "checkpoint completed",
            "job": "ab12",
            "checkpoint": "7",
        }


def test_a_json_line_of_any_other_record() -> None:
    found = json.loads(JsonFormatter().format(record("lost %s: %s", "a peer", 'a "word"\n', failed=True)))
    assert found["message"] == 'lost a peer: a "word"\n'
    assert found["exception"].endswith("ValueError: no such file")


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_a_record_is_of_bounded_length(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("y" * 1_000_000 + "the end")
    except ValueError:
        raised = sys.exc_info()
    record = logging.LogRecord("here", logging.INFO, "x.py", 1, "no job %s", ("x" * 1_000_000,), raised)
    line = formatter.format(record)
    assert len(line) < MESSAGE_MAX + EXCEPTION_MAX + 1_000
    assert "no job xxx" in line
    assert "characters left out" in line
    assert "the end" in line
