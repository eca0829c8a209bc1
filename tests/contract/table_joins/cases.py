"""Statements that join by time, and the rows that each of them is given, one after another.

A step is what comes before the next step: ``[side, id, key, seconds, watermark, number]``, with ``None`` for null. ``side``: ``L`` or ``R``; ``W`` is a row
of neither side. ``watermark``: seconds that event time has reached behind the row, on both sides; ``None``: it stays. A version that changes or goes has
the row it was and the row it is: ``{"before": row, "after": row}``, with ``None`` for no row.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from typing import Any

COLUMNS = "`side` STRING, `id` INT, `k` STRING, `ts` TIMESTAMP(3), `wm` TIMESTAMP(3), `v` INT"
AT_ONCE = 40
"""So many cases run in one job."""
JOINS = ("INNER", "LEFT", "RIGHT", "FULL")
Step = Any

_BOUNDS = {
    "both": "l.ts BETWEEN r.ts - INTERVAL '5' SECOND AND r.ts + INTERVAL '3' SECOND",
    "before": "l.ts BETWEEN r.ts - INTERVAL '6' SECOND AND r.ts",
    "after": "l.ts BETWEEN r.ts AND r.ts + INTERVAL '4' SECOND",
    "equal": "l.ts = r.ts",
    "strict": "l.ts > r.ts - INTERVAL '3' SECOND AND l.ts < r.ts + INTERVAL '2' SECOND",
    "long before": "l.ts BETWEEN r.ts - INTERVAL '9' SECOND AND r.ts - INTERVAL '4' SECOND",
    "long after": "l.ts BETWEEN r.ts + INTERVAL '3' SECOND AND r.ts + INTERVAL '7' SECOND",
    "none": "l.ts BETWEEN r.ts + INTERVAL '3' SECOND AND r.ts - INTERVAL '3' SECOND",
}


def interval(
    name: str,
    kind: str,
    bounds: str,
    steps: list[Step],
    *,
    on: str = "l.k = r.k AND ",
    more: str = "",
    minimum: str = "",
) -> dict[str, Any]:
    return {
        "name": name,
        "query": f"SELECT l.id, r.id FROM {{l}} AS l {kind} JOIN {{r}} AS r ON {on}{_BOUNDS[bounds]}{more}",
        "steps": steps,
        "has_versions": False,
        "options": {"table.exec.interval-join.min-cleanup-interval": minimum} if minimum else {},
    }


def temporal(name: str, kind: str, steps: list[Step], *, on: str = "", more: str = "") -> dict[str, Any]:
    """``on``: the condition besides the key."""
    query = f"SELECT l.id, r.id, r.v FROM {{l}} AS l {kind} JOIN {{r}} FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k{on}{more}"
    return {"name": name, "query": query, "steps": steps, "has_versions": True, "options": {}}


def cases() -> Iterator[dict[str, Any]]:
    yield from _chosen_intervals()
    yield from _random_intervals()
    yield from _chosen_temporal()
    yield from _random_temporal()


def _w(seconds: float) -> Step:
    return ["W", 0, None, 0, seconds, 0]


def _l(id: int, key: str | None, seconds: float, number: int | None = 0, watermark: float | None = None) -> Step:
    return ["L", id, key, seconds, watermark, number]


def _r(id: int, key: str | None, seconds: float, number: int | None = 0, watermark: float | None = None) -> Step:
    return ["R", id, key, seconds, watermark, number]


def _change(before: Step | None, after: Step | None) -> Step:
    return {"before": before, "after": after}


def moment(seconds: float) -> str:
    found = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=round(seconds * 1000))
    return found.isoformat(sep=" ", timespec="milliseconds")


def both_sides(step: Step) -> dict[str, dict[str, Any]]:
    """The changes that a step of versions brings to the sides ``l`` and ``r``. What has a watermark brings it to both, by a row of neither side, which is of
    a key of its own."""
    change = step if isinstance(step, dict) else _change(None, step)
    side, _, _, _, watermark, _ = change["after"] or change["before"]
    bare = _change(None, ["W", 0, "#", 0, watermark, 0])
    if side == "W":
        return {"l": bare, "r": bare}
    other = {} if watermark is None else {"r" if side == "L" else "l": bare}
    return {side.lower(): change, **other}


# --- by an interval ------------------------------------------------------------------------------------


def _chosen_intervals() -> Iterator[dict[str, Any]]:
    scenarios: dict[str, tuple[str, list[Step]]] = {
        "edges": ("both", [_r(1, "a", 100), _l(2, "a", 95), _l(3, "a", 94.999), _l(4, "a", 103), _l(5, "a", 103.001)]),
        "one joins, one does not": (
            "both",
            [_l(1, "a", 100), _l(2, "a", 120), _r(3, "a", 101), _w(105), _w(106), _w(107), _w(125), _w(126)],
        ),
        "a late row finds what is kept": (
            "both",
            [_l(1, "a", 100), _w(104), _r(2, "a", 99), _l(3, "a", 101), _w(105), _r(4, "a", 98), _r(5, "a", 103)],
        ),
        "late rows of both sides": (
            "both",
            [_w(200), _l(1, "a", 100), _r(2, "a", 100), _l(3, "a", 195), _r(4, "a", 197), _l(5, "a", 194.999), _w(201)],
        ),
        "at the watermark": (
            "both",
            [_w(100), _l(1, "a", 95), _l(2, "a", 94.999), _r(3, "a", 97), _r(4, "a", 96.999), _w(100.001), _w(101)],
        ),
        "clean-up of one timer": (
            "both",
            [_l(1, "a", 110), _l(2, "a", 100), _w(106), _w(110), _w(115), _w(116), _w(117)],
        ),
        "the first row has the timer": (
            "both",
            [_l(1, "a", 100), _l(2, "a", 99), _l(3, "a", 103), _w(105), _w(105.001), _w(108), _w(109), _w(130)],
        ),
        "joined rows do not come again": (
            "both",
            [_l(1, "a", 100), _r(2, "a", 100), _r(3, "a", 100), _l(4, "a", 101), _w(102), _w(110)],
        ),
        "keys of two": (
            "both",
            [_l(1, "a", 100), _l(2, "b", 100), _w(104), _r(3, "b", 101), _w(106), _r(4, "a", 101), _l(5, "b", 103)],
        ),
        "what another key has seen": (
            "both",
            [_r(1, "b", 90), _w(98), _l(2, "a", 98), _l(3, "b", 90), _r(4, "b", 91), _w(99), _l(5, "b", 91), _w(120)],
        ),
        "keys of null": (
            "both",
            [_l(1, None, 100), _r(2, None, 100), _r(3, "a", 100), _l(4, "a", 100), _w(110), _r(5, None, 90)],
        ),
        "rows again": (
            "both",
            [_l(1, "a", 100), _l(1, "a", 100), _r(2, "a", 100), _r(2, "a", 100), _w(110), _l(1, "a", 100)],
        ),
        "near 1970": ("both", [_l(1, "a", 0), _r(2, "a", 1), _l(3, "a", 2), _r(4, "a", 0), _w(3), _w(6), _w(20)]),
        "before 1970": (
            "both",
            [_l(1, "a", -10), _r(2, "a", -10), _r(3, "a", -5), _l(4, "a", -3), _l(5, "a", -1), _r(6, "a", 1), _w(9)],
        ),
        "before 1970, cleaned": ("both", [_l(1, "a", -2), _r(2, "a", -30), _l(3, "a", 4), _w(3), _w(5), _w(12)]),
        "nothing can join": ("none", [_l(1, "a", 100), _r(2, "a", 100), _w(110), _l(3, "a", 90)]),
        "far earlier": (
            "long before",
            [_r(1, "a", 108), _l(2, "a", 100), _w(104), _l(3, "a", 103), _r(4, "a", 112), _w(109), _w(113), _w(130)],
        ),
        "far later": (
            "long after",
            [_l(1, "a", 108), _r(2, "a", 103), _w(104), _l(3, "a", 106), _r(4, "a", 100), _w(107), _w(111), _w(130)],
        ),
        "rows with watermarks": (
            "both",
            [_l(1, "a", 100, 0, 99), _r(2, "a", 102, 0, 101), _l(3, "a", 108, 0, 107), _r(4, "a", 120, 0, 119)],
        ),
        "one time": (
            "equal",
            [_l(1, "a", 100), _r(2, "a", 100), _r(3, "a", 100.001), _w(100), _w(101), _l(4, "a", 100)],
        ),
        "one time, late": ("equal", [_w(100), _l(1, "a", 100), _r(2, "a", 100), _l(3, "a", 100.001), _w(100.002)]),
    }
    for name, (bounds, steps) in scenarios.items():
        for kind in JOINS:
            yield interval(f"interval, {name}, {kind.lower()}", kind, bounds, steps)
    for kind in JOINS:
        steps = scenarios["keys of two"][1]
        yield interval(f"interval, no key, {kind.lower()}", kind, "both", steps, on="")
        steps = scenarios["keys of null"][1]
        on = "l.k IS NOT DISTINCT FROM r.k AND "
        yield interval(f"interval, keys of null are equal, {kind.lower()}", kind, "both", steps, on=on)
        steps = [_l(1, "a", 100, 5), _r(2, "a", 100, 4), _r(3, "a", 101, 9), _l(4, "a", 102, None), _w(104), _w(110)]
        yield interval(f"interval, a condition, {kind.lower()}", kind, "both", steps, more=" AND l.v > r.v")
        for name in ("one joins, one does not", "the first row has the timer", "a late row finds what is kept"):
            for minimum in ("2 s", "4 s"):
                yield interval(
                    f"interval, {name}, cleaned after {minimum}, {kind.lower()}",
                    kind,
                    *scenarios[name],
                    minimum=minimum,
                )


def _random_intervals() -> Iterator[dict[str, Any]]:
    r = random.Random(38)
    for number in range(64):
        steps, now = [], 100
        for id in range(1, 13):
            choice = r.random()
            if choice < 0.2:
                now += r.choice((1, 2, 5, 8))
                steps.append(_w(now))
                continue
            seconds = max(now + r.randint(-12, 9), 1)
            row = (_l if r.random() < 0.5 else _r)(id, r.choice("aaab"), seconds, r.randint(0, 3))
            if choice > 0.85:
                now += r.choice((1, 3))
                row[4] = now
            steps.append(row)
        kind, bounds = JOINS[number % 4], r.choice([name for name in _BOUNDS if name != "none"])
        minimum = "3 s" if number % 5 == 0 else ""
        more = " AND l.v <> r.v" if number % 3 == 0 else ""
        yield interval(f"interval, random {number}", kind, bounds, steps, more=more, minimum=minimum)


# --- with versions -------------------------------------------------------------------------------------


def _chosen_temporal() -> Iterator[dict[str, Any]]:
    one, two, three = _r(11, "a", 100, 1), _r(12, "a", 110, 2), _r(13, "a", 120, 3)
    scenarios: dict[str, list[Step]] = {
        "versions": [one, two, _l(1, "a", 99), _l(2, "a", 100), _l(3, "a", 109.999), _l(4, "a", 110), _w(105), _w(111)],
        "as they came": [one, _l(3, "a", 103), _l(1, "a", 101), _l(2, "a", 102), _w(102), _w(104), _l(4, "a", 102), _w(105)],
        "rows before versions": [_l(1, "a", 105), _l(2, "a", 115), _w(103), two, one, _w(106), _w(120)],
        "a late row, the version is there": [one, two, _w(100), _w(115), _l(1, "a", 105), _w(116), _l(2, "a", 95), _w(117)],
        "a late row, the version is gone": [one, two, _w(115), _l(1, "a", 105), _l(2, "a", 112), _w(116), _w(117)],
        "a late row after a row in time": [
            one, two, _l(1, "a", 111), _w(112), _l(2, "a", 105), _w(113), three, _w(121), _l(3, "a", 112), _w(122),
        ],
        "a late row waits for the next watermark": [one, _w(130), _l(1, "a", 105), _l(2, "b", 105), _w(131)],
        "a late row at the end": [one, _w(130), _l(1, "a", 105)],
        "a late version": [one, _w(115), two, _l(1, "a", 112), _l(2, "a", 116), _w(116), _w(120)],
        "a late version behind its row": [one, _l(1, "a", 112), _w(113), two, _l(2, "a", 112), _w(114)],
        "a late version, older than the one kept": [two, _w(115), one, _l(1, "a", 105), _l(2, "a", 111), _w(116)],
        "a version takes the place of one of its time": [one, _r(14, "a", 100, 9), _l(1, "a", 101), _w(102)],
        "an update": [one, _change(one, two), _l(1, "a", 105), _l(2, "a", 110), _w(111), _l(3, "a", 105), _w(112)],
        "an update of one time": [one, _change(one, _r(14, "a", 100, 9)), _l(1, "a", 101), _w(102)],
        "an update later": [one, _l(1, "a", 105), _w(106), _change(one, two), _l(2, "a", 106), _l(3, "a", 110), _w(111)],
        "a delete": [one, _change(one, None), _l(1, "a", 105), _w(106)],
        "a delete at a time of its own": [
            one, _l(1, "a", 105), _change(_r(11, "a", 108, 1), None), _l(2, "a", 107), _l(3, "a", 108), _w(109), _l(4, "a", 107),
            _w(110),
        ],
        "a delete and a version": [
            one, _change(_r(11, "a", 108, 1), None), two, _l(1, "a", 107), _l(2, "a", 109), _l(3, "a", 111), _w(112), _w(113),
        ],
        "a late delete": [one, _w(115), _change(_r(11, "a", 108, 1), None), _l(1, "a", 109), _l(2, "a", 105), _w(116)],
        "keys of two": [one, _r(21, "b", 101, 7), _l(1, "a", 102), _l(2, "b", 102), _l(3, "c", 102), _w(103), _l(4, "b", 100)],
        "keys of null": [_l(1, None, 102), one, _w(103), _l(2, None, 104), _w(105)],
        "rows with watermarks": [
            _r(11, "a", 100, 1, 99), _l(1, "a", 101, 0, 101), _r(12, "a", 102, 2, 102), _l(2, "a", 102, 0, 103), _l(3, "a", 101, 0, 105),
        ],
        "a timer of an earlier version": [two, one, _w(101), _w(111), _l(1, "a", 105), _w(112)],
        "a timer of a row behind": [one, _l(1, "a", 120), two, _w(111), _l(2, "a", 105), _w(112), _w(121)],
        "near 1970": [_r(11, "a", 0, 1), _l(1, "a", 0), _l(2, "a", 1), _w(1), _l(3, "a", 0), _w(2)],
        "before 1970": [_r(11, "a", -10, 1), _l(1, "a", -5), _l(2, "a", -11), _w(1), _l(3, "a", -5), _w(2)],
    }  # fmt: skip
    for name, steps in scenarios.items():
        for kind in ("INNER", "LEFT"):
            yield temporal(f"temporal, {name}, {kind.lower()}", kind, steps)
    steps = [one, _l(1, "a", 101, 5), _l(2, "a", 102, 1), _l(3, "a", 103, None), _w(104)]
    for kind in ("INNER", "LEFT"):
        yield temporal(f"temporal, a condition, {kind.lower()}", kind, steps, on=" AND l.v > r.v")


def _random_temporal() -> Iterator[dict[str, Any]]:
    r = random.Random(39)
    for number in range(48):
        steps: list[Step] = []
        now, current = 100, dict[str, Step]()
        for id in range(1, 15):
            choice = r.random()
            key = r.choice("aab")
            seconds = max(now + r.randint(-8, 8), 1)
            if choice < 0.25:
                now += r.choice((1, 2, 5))
                steps.append(_w(now))
            elif choice < 0.6:
                steps.append(_l(id, key, seconds, r.randint(0, 3)))
            else:
                version, before = _r(100 + id, key, seconds, r.randint(0, 3)), current.pop(key, None)
                if before is None:
                    steps.append(version)
                    current[key] = version
                elif choice < 0.75:
                    gone = list(before)
                    gone[3] = seconds if r.random() < 0.5 else before[3]
                    steps.append(_change(gone, None))
                else:
                    steps.append(_change(before, version))
                    current[key] = version
        on = " AND l.v <> r.v" if number % 4 == 3 else ""
        yield temporal(f"temporal, random {number}", ("INNER", "LEFT")[number % 2], steps, on=on)
