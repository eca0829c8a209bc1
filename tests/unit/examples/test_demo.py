"""How the demo ends when it is interrupted."""

from __future__ import annotations

import os
import runpy
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

DEMO = Path(__file__).parents[3] / "examples" / "demo.py"


class Files:
    """Takes the place of the demo's files: a signal comes while they are removed."""

    def __init__(self, *_: object) -> None:
        self.ended = 0

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        self.ended += 1


@pytest.fixture
def _handlers() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers")
def test_a_signal_in_the_final_clean_up_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = runpy.run_path(str(DEMO))
    files = Files()

    def demonstrated(console: Console, own: Files, seconds: float) -> int:
        return 0

    replaced = {"EmbeddedFiles": lambda *_: files, "demonstrate": demonstrated, "load_settings": dict}
    for name, value in replaced.items():
        monkeypatch.setitem(demo["main"].__globals__, name, value)
    monkeypatch.setattr("sys.argv", ["demo.py"])
    assert demo["main"]() == 130
    assert capsys.readouterr().out == "interrupted\n"
    assert files.ended == 1, "the second attempt was not interrupted"
