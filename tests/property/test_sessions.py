"""Sessions are the same whatever the order in which their records come, and wherever a snapshot is restored in between."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.taskmanager.operators.harness import restored_of, start
from tests.unit.taskmanager.operators.keyed_kit import keyed
from tidegate.datastream.window import EventTimeSessionWindows, TimeWindow
from tidegate.functions.interfaces import ProcessWindowFunction
from tidegate.taskmanager.windows.rows.merging_windows import MergingWindows

GAP_MS = 10
WINDOWS = st.lists(
    st.builds(lambda at, gap: TimeWindow(at, at + gap), st.integers(0, 200), st.integers(1, 30)), max_size=15
)


def sessions_of(windows: list[TimeWindow]) -> list[TimeWindow]:
    """The plain definition."""
    found: list[TimeWindow] = []
    for window in sorted(windows):
        if found and found[-1].end >= window.start:
            found[-1] = found[-1].cover(window)
        else:
            found.append(window)
    return found


@given(WINDOWS)
def test_windows_of_a_key_do_not_depend_on_their_order(windows: list[TimeWindow]) -> None:
    known = MergingWindows(EventTimeSessionWindows(GAP_MS))
    held: dict[Any, list[TimeWindow]] = {}

    def on_merge(result: TimeWindow, old: list[Any], state: Any, sources: list[Any]) -> None:
        assert all(result.cover(window) == result for window in old)
        for source in sources:
            held[state] = held[state] + held.pop(source)

    for window in windows:
        actual = known.add(window, on_merge)
        assert actual.cover(window) == actual
        held.setdefault(known.state_window(actual), []).append(window)
        states = [state for _, state in known.pairs()]
        assert len(set(states)) == len(states)
    assert sorted(window for window, _ in known.pairs()) == sessions_of(windows)
    for window, state in known.pairs():
        assert sessions_of(held[state]) == [window]


class Seen(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield key, context.window(), sorted(element[1] for element in elements)


@settings(max_examples=40, deadline=None)
@given(
    st.permutations(range(12)),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 90)), min_size=12, max_size=12),
    st.integers(0, 12),
)
def test_a_restore_in_the_middle_changes_no_session(order: list[int], records: list[tuple[str, int]], cut: int) -> None:
    spec = keyed("window", assigner=EventTimeSessionWindows(GAP_MS), trigger=None, function=("process", Seen()))
    shuffled = [records[place] for place in order]
    before = start(spec)
    before.feed(shuffled[:cut], [at for _, at in shuffled[:cut]])
    after = start(spec, restored=restored_of([before.snapshot()]))
    after.feed(shuffled[cut:], [at for _, at in shuffled[cut:]])
    after.operator.on_watermark(1000)
    expected = []
    for key in "ab":
        times = sorted(at for name, at in records if name == key)
        windows = sessions_of([TimeWindow(at, at + GAP_MS) for at in times])
        expected += [(key, window, [at for at in times if window.start <= at < window.end]) for window in windows]
    assert sorted(after.out.values()) == sorted(expected)
    assert after.snapshot().keyed == ()
