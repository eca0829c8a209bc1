"""What a function returns is emitted as by PyFlink 2.3, through every adapter (``record_returns.py`` says how that was recorded).

Where PyFlink's job fails, ours fails too, but for two things: what is empty emits nothing (``None`` is what a function without ``return`` returns),
and ``None`` may be a record.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.pyflink.record_returns import FOUND
from tests.contract.pyflink.returns import RETURNS, api, pieces, reprs
from tidegate.common import Types
from tidegate.model.errors import TidegateError
from tidegate.testing import OperatorHarness

RECORDED: dict[str, dict[str, Any]] = {}
for piece, name, seen in json.loads(FOUND.read_text()):
    RECORDED.setdefault(piece, {})[name] = seen
OURS = {"None": ([], ["None"], ["'[None]'"]), "0": ([],), "False": ([],), "[None]": (["None"],)}
"""What we may emit where PyFlink's job fails."""
ITERATORS = ("iter([1])", "generator of nothing")
"""Where they are records, their ``repr`` differs."""


def test_all_was_recorded() -> None:
    assert list(RECORDED) == list(pieces(api("tidegate")))
    assert all(list(found) == list(RETURNS) for found in RECORDED.values())


@pytest.mark.parametrize("piece", RECORDED)
def test_emits_what_pyflink_emits(piece: str) -> None:
    is_one = RECORDED[piece]["5"] == ["5"] or "aggregate" in piece
    for name, seen in RECORDED[piece].items():
        if not (is_one and name in ITERATORS):
            allowed = [seen, *(OURS.get(name, ()) if seen == "error" else ())]
            assert _emitted(piece, name) in allowed, f"{name}: {seen}"


def _emitted(piece: str, name: str) -> Any:
    make = pieces(api("tidegate"))[piece]
    with OperatorHarness(make, Types.STRING(), Types.STRING()) as one:
        try:
            one.push(name)
            for number in (0, 1):
                one.push_watermark(2**63 - 1, input=number)
            one.finish()
        except TidegateError:
            return "error"
        return reprs(one.output)[0]
