"""Matches of patterns that were made by chance, beside those that Flink 2.3's CEP operator found (``record.py``): the same ones, in the same order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.cep.patterns import RECORDED, found_in, pattern_of
from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.errors import MalformedPatternException

PARTS = 20


def by_key(case: dict[str, Any], steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is found at once for two keys has no order."""
    keys = {number: key for kind, _, *event in case["steps"] if kind == "event" for key, number in [event[:2]]}
    return [
        {
            what: found if what == "late" else sorted(found, key=lambda one: keys[min(min(one[1].values()))])
            for what, found in step.items()
        }
        for step in steps
    ]


@pytest.mark.parametrize("part", range(PARTS))
def test_what_flink_finds_is_found(part: int) -> None:
    for case in RECORDED[part::PARTS]:
        if "refused" in case:
            with pytest.raises(MalformedPatternException) as refusal:
                compile_pattern(pattern_of(case))
            assert refusal.value.message == case["refused"], case
            continue
        found = json.loads(json.dumps(found_in(case)))
        assert by_key(case, found) == by_key(case, case["found"]), case
        stages = [[[*one[1]] for one in step.get("matches", ())] for step in by_key(case, found)]
        assert stages == [[[*one[1]] for one in step.get("matches", ())] for step in by_key(case, case["found"])]


def test_the_recording_has_all_that_it_is_about() -> None:
    calls = {call[0] for case in RECORDED for stage in case["pattern"] for call in stage["calls"]}
    assert calls >= {"one_or_more", "times", "times_or_more", "optional", "greedy", "until", "consecutive", "within"}
    assert {case["skip"][0] for case in RECORDED} == {
        "no_skip", "skip_to_next", "skip_past_last_event", "skip_to_first", "skip_to_last",
    }  # fmt: skip
    found = [case for case in RECORDED if any("matches" in step for step in case.get("found", ()))]
    timed_out = [case for case in RECORDED if any("timed_out" in step for step in case.get("found", ()))]
    assert len(found) > 300
    assert len(timed_out) > 200
