"""Lines of user code name their task; those of a sink stand as they are."""

from __future__ import annotations

import pytest

from tidegate.taskmanager.service.reporting.printing import print_lines


def test_lines_of_user_code_name_their_task(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines("Map (1/2)#0", "a\nb\n", is_error=False)
    print_lines("Map (1/2)#0", "c\n", is_error=True)
    printed = capsys.readouterr()
    assert printed.out == "[Map (1/2)#0] a\n[Map (1/2)#0] b\n"
    assert printed.err == "[Map (1/2)#0] c\n"


def test_lines_of_a_sink_stand_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines("", "2> a\x0bb\n2> c\n", is_error=False)
    assert capsys.readouterr().out == "2> a\x0bb\n2> c\n"
