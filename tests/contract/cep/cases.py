"""Patterns and streams for CEP, made by chance from a seed.

A case is a pattern as calls by name, a strategy, and steps: events (time, key, number, name, amount), watermarks, times of the clock.
"""

from __future__ import annotations

import random
from typing import Any

from tests.contract.cep.patterns import pattern_of
from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.errors import MalformedPatternException

NAMES = "abcd"


def cases(count: int = 1000, seed: int = 40) -> list[dict[str, Any]]:
    """Without those at which Flink goes round for ever."""
    found = [_case(random.Random(f"{seed}/{at}")) for at in range(count)]
    return [case for case in found if not _is_endless(case)]


def _is_endless(case: dict[str, Any]) -> bool:
    try:
        compile_pattern(pattern_of(case))
    except MalformedPatternException as error:
        return "repeats without end" in error.message
    return False


def _case(r: random.Random) -> dict[str, Any]:
    stages = _stages(r, iter("pqrstuvwxyz"), r.randint(1, 4), is_inner=False)
    if r.random() < 0.5:
        stages[-1]["calls"].append(["within", r.choice([3, 6, 12])])
    names = [stage["name"] for stage in stages if "name" in stage] or ["p"]
    skip: list[str] = [
        r.choice(["no_skip", "no_skip", "skip_to_next", "skip_past_last_event", "skip_to_first", "skip_to_last"])
    ]
    if skip[0] in ("skip_to_first", "skip_to_last"):
        skip.append(r.choice(names))
    time = "processing" if r.random() < 0.15 else "event"
    return {"pattern": stages, "skip": skip, "time": time, "steps": _steps(r, time)}


def _stages(r: random.Random, names: Any, count: int, *, is_inner: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for at in range(count):
        hows = ["next", "followed_by", "followed_by", "followed_by_any"]
        if at:
            hows += ["not_next", "not_followed_by"]
        how = r.choice(hows) if at else "begin"
        is_not = how.startswith("not")
        if not is_not and not is_inner and r.random() < 0.2:
            stage: dict[str, Any] = {
                "group": _stages(r, names, r.randint(1, 2), is_inner=True),
                "how": how,
                "calls": [],
            }
        else:
            stage = {"name": next(names), "how": how, "calls": _conditions(r)}
        if not is_not:
            stage["calls"] += _quantifier(r, "group" in stage)
        if r.random() < 0.1:
            stage["calls"].append(["within_previous", r.choice([2, 4])])
        found.append(stage)
    return found


def _condition(r: random.Random) -> list[Any]:
    return ["is", r.choice(NAMES[:3])] if r.random() < 0.8 else ["above", str(r.randint(1, 8))]


def _conditions(r: random.Random) -> list[Any]:
    calls: list[Any] = []
    if r.random() < 0.95:
        calls.append(["where", _condition(r)])
    if r.random() < 0.15:
        calls.append(["or_", _condition(r)])
    if r.random() < 0.2:
        calls.append(["where", [r.choice(["rising", "sum_below"]), r.choice("pqr"), r.randint(5, 20)]])
    return calls


def _quantifier(r: random.Random, is_group: bool) -> list[Any]:
    calls: list[Any] = []
    kind = r.random()
    if kind < 0.5:
        pass
    elif kind < 0.7:
        calls.append(["one_or_more"])
    elif kind < 0.78:
        calls.append(["times_or_more", r.randint(1, 3)])
    elif kind < 0.9:
        calls.append(["times", r.randint(1, 3), None, *([r.choice([2, 5])] if r.random() < 0.3 else [])])
    else:
        calls.append(["times", r.randint(0, 2), r.randint(2, 3)])
    if calls:
        inner = r.random()
        if inner < 0.2:
            calls.append(["consecutive"])
        elif inner < 0.35:
            calls.append(["allow_combinations"])
        if r.random() < 0.25 and not is_group:
            calls.append(["greedy"])
        if calls[0][0] in ("one_or_more", "times_or_more") and r.random() < 0.25:
            calls.append(["until", _condition(r)])
    if r.random() < 0.2:
        calls.append(["optional"])
    return calls


def _steps(r: random.Random, time: str) -> list[Any]:
    steps: list[Any] = []
    now = 1
    waiting: list[Any] = []
    for number in range(r.randint(8, 16)):
        now += r.choice([0, 1, 1, 2, 3])
        event = [now, r.choice("kkkl"), number, r.choice("aaabbbccd"), r.randint(0, 10)]
        if time == "processing":
            steps += [["clock", now], ["event", *event]]
            continue
        waiting.append(["event", *event])
        if r.random() < 0.4:
            r.shuffle(waiting)
            steps += [*waiting, ["watermark", now - r.randint(0, 2)]]
            waiting = []
    return [*steps, *waiting, *([["clock", now + 20]] if time == "processing" else [["watermark", now + 20]])]


__all__ = ["cases"]
