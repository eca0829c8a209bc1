"""Each function of the guides and examples that computes with state, timers or windows gives what a plain loop gives, on data that is hard for it:
sessions with gaps between them, in disorder, and hundreds of records before a watermark."""

from __future__ import annotations

import ast
import importlib.util
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.architecture.source import ROOT
from tidegate.common import Row, Types
from tidegate.common.typeinfo import TypeInformation
from tidegate.datastream import DataStream, KeyedProcessFunction, ProcessWindowFunction
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.datastream.window import EventTimeSessionWindows
from tidegate.testing import OperatorHarness

MINUTE_MS = 60_000
DISORDER_MS = 9_000
WATERMARK_DELAY_MS = 10_000
RECORDS_BEFORE_A_WATERMARK = 400
TAP = Types.TUPLE([Types.STRING(), Types.LONG()])
ROW_TAP = Types.ROW_NAMED(
    ["id", "card", "station", "cents", "at"],
    [Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()],
)
FENCE = re.compile(r"^```python run\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def taps(seed: int = 34) -> list[tuple[str, int]]:
    """(station, ms) as they arrive. Within a session taps lie up to a minute apart, sometimes exactly; between two of them lies more, often a
    millisecond more."""
    chosen, found = random.Random(seed), []
    for station in range(12):
        at = chosen.randrange(MINUTE_MS)
        for _ in range(chosen.randrange(20, 60)):
            for _ in range(chosen.randrange(1, 8)):
                found.append((f"station-{station}", at))
                at += chosen.choice([0, 1, MINUTE_MS, chosen.randrange(MINUTE_MS)])
            at = found[-1][1] + chosen.choice([MINUTE_MS + 1, MINUTE_MS + chosen.randrange(1, 3 * MINUTE_MS)])
    return arriving(found, chosen)


def arriving(found: Iterable[tuple[Any, int]], chosen: random.Random) -> list[tuple[Any, int]]:
    """In disorder, but none of them late."""
    return [tap for _, tap in sorted((tap[1] + chosen.randrange(DISORDER_MS), tap) for tap in found)]


def emitted(
    piece: Callable[[DataStream], DataStream],
    kind: TypeInformation,
    records: list[tuple[Any, int]],
    backend: str = "hashmap",
) -> list[Any]:
    """``records``: each with its time, as they arrive."""
    with OperatorHarness(piece, kind, configuration={"state.backend.type": backend}) as one:
        for start in range(0, len(records), RECORDS_BEFORE_A_WATERMARK):
            together = records[start : start + RECORDS_BEFORE_A_WATERMARK]
            one.push_all([record for record, _ in together], [at for _, at in together])
            one.push_watermark(max(at for _, at in records[: start + len(together)]) - WATERMARK_DELAY_MS)
        one.push_watermark(2**63 - 1)
        return one.output


def ends_of_sessions(found: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The last tap of each session: none follows within a minute."""
    times = defaultdict(set)
    for station, at in found:
        times[station].add(at)
    ends = []
    for station, of_station in times.items():
        ordered = sorted(of_station)
        ends += [
            (station, at) for at, then in zip(ordered, [*ordered[1:], 2**63], strict=True) if then - at > MINUTE_MS
        ]
    return sorted(ends)


def of_page(page: str, name: str) -> Any:
    """A class of a page, without the job that the page makes of it."""
    code = next(
        body for body in FENCE.findall((ROOT / "docs" / page).read_text(encoding="utf-8")) if f"class {name}(" in body
    )
    kept = (ast.Import, ast.ImportFrom, ast.ClassDef)
    tree = ast.parse(code)
    tree.body = [
        one for one in tree.body if isinstance(one, kept) or (isinstance(one, ast.Assign) and _is_constant(one))
    ]
    names: dict[str, Any] = {}
    exec(compile(tree, page, "exec"), names)
    return names[name]


def _is_constant(assigned: ast.Assign) -> bool:
    return isinstance(assigned.targets[0], ast.Name) and assigned.targets[0].id.isupper()


def of_example(name: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[DataStream], DataStream]:
    """What ``build`` of an example puts between its source and its sink."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / "from_spark" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def piece(stream: DataStream) -> DataStream:
        ends: list[DataStream] = []

        def sink_to(end: DataStream, sink: object) -> Any:
            ends.append(end)
            return SimpleNamespace(uid=lambda uid: None)

        with monkeypatch.context() as patched:
            patched.setattr(DataStream, "sink_to", sink_to)
            module.build(SimpleNamespace(from_spark_stream=lambda *_: stream), "in", "out")
        return ends[0]

    return piece


def row_taps(found: Iterable[tuple[str, int]]) -> list[tuple[Row, int]]:
    return [(Row(id=n, card=card, station="Zuid", cents=n % 100, at=at), at) for n, (card, at) in enumerate(found)]


class NewestArrived(KeyedProcessFunction):
    """What must not be taught: the timer is compared with the newest tap that has arrived."""

    def open(self, runtime_context: Any) -> None:
        self.newest = runtime_context.get_state(ValueStateDescriptor("newest", Types.LONG()))

    def process_element(self, tap: Any, ctx: Any) -> None:
        newest = max(ctx.timestamp(), self.newest.value() or 0)
        self.newest.update(newest)
        ctx.timer_service().register_event_time_timer(newest + MINUTE_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp == (self.newest.value() or 0) + MINUTE_MS:
            yield f"{ctx.get_current_key()} {self.newest.value()}"


class Ends(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield f"{key} {context.window().end - MINUTE_MS}"


def by_station(stream: DataStream) -> Any:
    return stream.key_by(lambda tap: tap[0], Types.STRING())


def stamped(found: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    return [(tap, tap[1]) for tap in found]


class TestSilence:
    def test_the_data_shows_what_is_wrong_with_the_newest_that_arrived(self) -> None:
        found = taps()
        ends = [f"{station} {at}" for station, at in ends_of_sessions(found)]
        assert len(ends) > 300
        wrong = emitted(lambda s: by_station(s).process(NewestArrived(), Types.STRING()), TAP, stamped(found))
        assert len(wrong) < len(ends) / 2
        windows = EventTimeSessionWindows.with_gap(MINUTE_MS)
        right = emitted(lambda s: by_station(s).window(windows).process(Ends(), Types.STRING()), TAP, stamped(found))
        assert sorted(right) == sorted(ends)

    @pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
    def test_of_the_tutorial(self, backend: str) -> None:
        found = taps()
        silence = of_page("tutorial/from_spark.md", "Silence")
        told = emitted(lambda s: by_station(s).process(silence(), Types.STRING()), TAP, stamped(found), backend)
        expected = [f"{station} has been silent since {at // 1000} s" for station, at in ends_of_sessions(found)]
        assert sorted(told) == sorted(expected)

    @pytest.mark.parametrize("seed", range(5))
    def test_of_the_example(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        found = taps(seed)
        told = emitted(of_example("silence", monkeypatch), ROW_TAP, row_taps(found))
        assert sorted(tuple(row) for row in told) == ends_of_sessions(found)

    def test_late_taps_are_taken_as_session_windows_take_them(self) -> None:
        """Watermarks without a delay: a tap in disorder may be late."""
        silence = of_page("tutorial/from_spark.md", "Silence")
        windows = EventTimeSessionWindows.with_gap(MINUTE_MS)
        pieces = [
            lambda s: by_station(s).process(silence(), Types.STRING()),
            lambda s: by_station(s).window(windows).process(Ends(), Types.STRING()),
        ]
        told = []
        for piece in pieces:
            with OperatorHarness(piece, TAP) as one:
                for tap in taps():
                    one.push(tap, timestamp=tap[1])
                    one.push_watermark(tap[1] + 3 * MINUTE_MS // 4)
                one.push_watermark(2**63 - 1)
                told.append(sorted(tuple(map(int, re.findall(r"\d+", text))) for text in one.output))
        assert told[0] == sorted((station, at // 1000) for station, at in told[1])


def test_each_tap_once_by_id_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, found = random.Random(1), []
    for n in range(3_000):
        at = n * 50
        found += [((n % 700, at), at)] * chosen.choice([1, 1, 2, 3])
        found.append(((n % 700, at + chosen.randrange(5_000)), 0))  # the same id at another time
    pairs = [pair for pair, _ in arriving([(pair, pair[1]) for pair, _ in found], chosen)]
    rows = [(Row(id=i, card="c", station="Zuid", cents=1, at=at), at) for i, at in pairs]
    told = emitted(of_example("distinct", monkeypatch), ROW_TAP, rows)
    assert Counter(row[0] for row in told) == Counter(i for i, _ in dict.fromkeys(pairs))


def test_milestones(monkeypatch: pytest.MonkeyPatch) -> None:
    found = taps()
    told = emitted(of_example("milestones", monkeypatch), ROW_TAP, row_taps(found))
    counts = Counter(card for card, _ in found)
    expected = [(card, n) for card, count in counts.items() for n in range(10, count + 1, 10)]
    assert sorted(tuple(row) for row in told) == sorted(expected)


def test_clicks_of_each_ten_seconds() -> None:
    found = taps()
    kind = Types.TUPLE([Types.STRING(), Types.INT()])
    clicks = of_page("guide/testing.md", "Clicks")
    records = [((visitor, 1 + at % 3), at) for visitor, at in found]
    told = emitted(lambda s: by_station(s).process(clicks(), kind), kind, records)
    expected: Counter[tuple[str, int]] = Counter()
    for (visitor, count), at in records:
        expected[visitor, at // 10_000] += count
    assert sorted(told) == sorted((visitor, count) for (visitor, _), count in expected.items())


def test_totals_of_local_days_over_a_change_of_the_clocks() -> None:
    berlin, chosen = ZoneInfo("Europe/Berlin"), random.Random(3)
    start = int(datetime.fromisoformat("2026-03-27T20:00Z").timestamp() * 1000)
    sales = [(f"shop-{n % 3}", n % 50, start + chosen.randrange(96 * 3_600_000)) for n in range(3_000)]
    kind = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()])
    ordered = arriving([(sale, sale[2]) for sale in sales], chosen)

    def day(sale: Any) -> tuple[str, str]:
        return sale[0], datetime.fromtimestamp(sale[2] / 1000, berlin).date().isoformat()

    by_day = of_page("guide/time_zones.md", "ByDay")
    keys = Types.TUPLE([Types.STRING(), Types.STRING()])
    told = emitted(lambda s: s.key_by(day, keys).process(by_day(), Types.STRING()), kind, ordered)
    totals: Counter[tuple[str, str]] = Counter()
    for sale in sales:
        totals[day(sale)] += sale[1]
    expected = [f"{date[8:]}.{date[5:7]}. {shop}: {total}" for (shop, date), total in totals.items()]
    assert sorted(told) == sorted(expected)


def test_pages_of_a_visit_are_in_the_order_of_their_time() -> None:
    found = [(station, f"page-{n}", at) for n, (station, at) in enumerate(taps())]
    kind = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])
    visit = of_page("guide/event_time_and_windows.md", "Visit")
    windows = EventTimeSessionWindows.with_gap(30_000)
    records = [(page, page[2]) for page in found]
    told = emitted(lambda s: by_station(s).window(windows).process(visit(), Types.STRING()), kind, records)
    of_user: dict[str, list[Any]] = defaultdict(list)
    for page in found:
        of_user[page[0]].append(page)
    expected = []
    for user, pages in of_user.items():
        sessions: list[list[Any]] = []
        for page in sorted(pages, key=lambda page: page[2]):
            if sessions and page[2] - sessions[-1][-1][2] <= 30_000:
                sessions[-1].append(page)
            else:
                sessions.append([page])
        expected += [(user, len(s), s[-1][2] - s[0][2]) for s in sessions]
    times = {page[1]: page[2] for page in found}
    seen = []
    for text in told:
        user, path, length = re.fullmatch(r"(\S+): (.*) in (\d+) ms", text).groups()  # type: ignore[union-attr]
        names = path.split(" > ")
        assert [times[name] for name in names] == sorted(times[name] for name in names)
        seen.append((user, len(names), int(length)))
    assert sorted(seen) == sorted(expected)


@dataclass(frozen=True)
class Running:
    """A total of each key, emitted with every record."""

    page: str
    name: str
    kind: TypeInformation


@pytest.mark.parametrize(
    "running",
    [
        Running("guide/totals.md", "Total", Types.TUPLE([Types.STRING(), Types.DOUBLE()])),
        Running("guide/checkpointing.md", "RunningTotal", Types.TUPLE([Types.STRING(), Types.LONG()])),
    ],
    ids=lambda running: running.name,
)
def test_running_totals(running: Running) -> None:
    total = of_page(running.page, running.name)
    records = [((key, float(at) if running.name == "Total" else at), at) for key, at in taps()]
    told = emitted(lambda s: by_station(s).process(total(), running.kind), running.kind, records)
    so_far: Counter[str] = Counter()
    expected = []
    for (key, amount), _ in records:
        so_far[key] += amount  # type: ignore[assignment]
        expected.append((key, so_far[key]))
    assert told == expected
