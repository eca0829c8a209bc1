"""What functions may return, and every adapter around a function: pieces of a program, for PyFlink and for tidegate.

Each piece calls its function once for each of ``RETURNS`` that is asked for, in turn, with a ``"|"`` emitted between two.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

RETURNS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "0": lambda: 0,
    "False": lambda: False,
    "''": lambda: "",
    "[]": list,
    "{}": dict,
    "()": lambda: (),
    "'ab'": lambda: "ab",
    "b'ab'": lambda: b"ab",
    "[None]": lambda: [None],
    "[1, 2]": lambda: [1, 2],
    "(1, 2)": lambda: (1, 2),
    "{'x': 1}": lambda: {"x": 1},
    "iter([1])": lambda: iter([1]),
    "generator of nothing": lambda: (one for one in ""),
    "5": lambda: 5,
    "True": lambda: True,
    "1.5": lambda: 1.5,
}


def api(root: str) -> Any:
    """The names of ``pyflink`` or ``tidegate`` that the pieces use."""
    found = SimpleNamespace()
    for module in ("common", "datastream", "datastream.window", "datastream.state", "datastream.functions"):
        for name, value in vars(importlib.import_module(f"{root}.{module}")).items():
            if not name.startswith("_"):
                setattr(found, name, value)
    return found


def pieces(a: Any) -> dict[str, Callable[[Any, Any], Any]]:
    """By name: a function of two streams of names of ``RETURNS`` (``"|"`` between them) and of a control stream without records."""

    def one(value: Any, *_: Any) -> Any:
        return "|" if value == "|" else RETURNS[value]()

    def many(value: Any, *_: Any) -> Any:
        return ["|"] if value == "|" else RETURNS[value]()

    def key(_: Any) -> str:
        return "k"

    def keyed(stream: Any) -> Any:
        return stream.key_by(key, a.Types.STRING())

    class CoMap(a.CoMapFunction):  # type: ignore[misc]
        def map1(self, value: Any) -> Any:
            return one(value)

        map2 = map1

    class CoFlatMap(a.CoFlatMapFunction):  # type: ignore[misc]
        def flat_map1(self, value: Any) -> Any:
            return many(value)

        flat_map2 = flat_map1

    class Map(a.MapFunction):  # type: ignore[misc]
        def map(self, value: Any) -> Any:
            return one(value)

    class FlatMap(a.FlatMapFunction):  # type: ignore[misc]
        def flat_map(self, value: Any) -> Any:
            return many(value)

    class Filter(a.FilterFunction):  # type: ignore[misc]
        def filter(self, value: Any) -> Any:
            return one(value)

    class Process(a.ProcessFunction):  # type: ignore[misc]
        def process_element(self, value: Any, ctx: Any) -> Any:
            return many(value)

    class KeyedProcess(a.KeyedProcessFunction):  # type: ignore[misc]
        def process_element(self, value: Any, ctx: Any) -> Any:
            return many(value)

        def on_timer(self, timestamp: Any, ctx: Any) -> Any:
            return []

    class OnTimer(a.KeyedProcessFunction):  # type: ignore[misc]
        """Each record's key is the record and its number."""

        def process_element(self, value: Any, ctx: Any) -> Any:
            ctx.timer_service().register_event_time_timer(value[0])

        def on_timer(self, timestamp: Any, ctx: Any) -> Any:
            return many(ctx.get_current_key()[1])

    class CoProcess(a.CoProcessFunction):  # type: ignore[misc]
        def process_element1(self, value: Any, ctx: Any) -> Any:
            return many(value)

        process_element2 = process_element1

    class KeyedCoProcess(a.KeyedCoProcessFunction):  # type: ignore[misc]
        def process_element1(self, value: Any, ctx: Any) -> Any:
            return many(value)

        process_element2 = process_element1

        def on_timer(self, timestamp: Any, ctx: Any) -> Any:
            return []

    class Broadcast(a.BroadcastProcessFunction):  # type: ignore[misc]
        def process_element(self, value: Any, ctx: Any) -> Any:
            return many(value)

        process_broadcast_element = process_element

    class KeyedBroadcast(a.KeyedBroadcastProcessFunction):  # type: ignore[misc]
        def process_element(self, value: Any, ctx: Any) -> Any:
            return many(value)

        process_broadcast_element = process_element

        def on_timer(self, timestamp: Any, ctx: Any) -> Any:
            return []

    class Apply(a.WindowFunction):  # type: ignore[misc]
        def apply(self, key: Any, window: Any, inputs: Any) -> Any:
            return many(next(iter(inputs)))

    class ProcessWindow(a.ProcessWindowFunction):  # type: ignore[misc]
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            return many(next(iter(elements)))

        def clear(self, context: Any) -> None:
            pass

    class ApplyAll(a.AllWindowFunction):  # type: ignore[misc]
        def apply(self, window: Any, inputs: Any) -> Any:
            return many(next(iter(inputs)))

    class ProcessAll(a.ProcessAllWindowFunction):  # type: ignore[misc]
        def process(self, context: Any, elements: Any) -> Any:
            return many(next(iter(elements)))

        def clear(self, context: Any) -> None:
            pass

    class Aggregate(a.AggregateFunction):  # type: ignore[misc]
        def create_accumulator(self) -> Any:
            return "?"

        def add(self, value: Any, accumulator: Any) -> Any:
            return value

        def get_result(self, accumulator: Any) -> Any:
            return one(accumulator)

        def merge(self, a: Any, b: Any) -> Any:
            return b

    broadcast_state = a.MapStateDescriptor("s", a.Types.STRING(), a.Types.STRING())
    pickled = a.Types.PICKLED_BYTE_ARRAY()

    def numbered(stream: Any) -> Any:
        class Numbered(a.MapFunction):  # type: ignore[misc]
            def open(self, runtime_context: Any) -> None:
                self.number = 0

            def map(self, value: Any) -> Any:
                self.number += 1
                return self.number, value

        return stream.map(Numbered(), pickled)

    def windows(stream: Any) -> Any:
        return keyed(stream).count_window(1)

    def windows_all(stream: Any) -> Any:
        return stream.window_all(a.CountTumblingWindowAssigner.of(1))

    return {
        "map": lambda s, t: s.map(Map()),
        "map of a function": lambda s, t: s.map(one),
        "keyed map": lambda s, t: keyed(s).map(Map()),
        "flat_map": lambda s, t: s.flat_map(FlatMap()),
        "keyed flat_map": lambda s, t: keyed(s).flat_map(FlatMap()),
        "filter": lambda s, t: s.filter(Filter()),
        "keyed filter": lambda s, t: keyed(s).filter(Filter()),
        "process": lambda s, t: s.process(Process()),
        "keyed process": lambda s, t: keyed(s).process(KeyedProcess()),
        "on_timer": lambda s, t: numbered(s).key_by(lambda pair: pair, pickled).process(OnTimer()),
        "co-map 1": lambda s, t: s.connect(t).map(CoMap()),
        "co-map 2": lambda s, t: t.connect(s).map(CoMap()),
        "keyed co-map 1": lambda s, t: keyed(s).connect(keyed(t)).map(CoMap()),
        "keyed co-map 2": lambda s, t: keyed(t).connect(keyed(s)).map(CoMap()),
        "co-flat_map 1": lambda s, t: s.connect(t).flat_map(CoFlatMap()),
        "co-flat_map 2": lambda s, t: t.connect(s).flat_map(CoFlatMap()),
        "keyed co-flat_map 1": lambda s, t: keyed(s).connect(keyed(t)).flat_map(CoFlatMap()),
        "keyed co-flat_map 2": lambda s, t: keyed(t).connect(keyed(s)).flat_map(CoFlatMap()),
        "co-process 1": lambda s, t: s.connect(t).process(CoProcess()),
        "co-process 2": lambda s, t: t.connect(s).process(CoProcess()),
        "keyed co-process 1": lambda s, t: keyed(s).connect(keyed(t)).process(KeyedCoProcess()),
        "broadcast": lambda s, t: s.connect(t.broadcast(broadcast_state)).process(Broadcast()),
        "broadcast side": lambda s, t: t.connect(s.broadcast(broadcast_state)).process(Broadcast()),
        "keyed broadcast": lambda s, t: keyed(s).connect(t.broadcast(broadcast_state)).process(KeyedBroadcast()),
        "window apply": lambda s, t: windows(s).apply(Apply()),
        "window process": lambda s, t: windows(s).process(ProcessWindow()),
        "window aggregate": lambda s, t: windows(s).aggregate(Aggregate(), output_type=pickled),
        "window aggregate, process": lambda s, t: windows(s).aggregate(
            Aggregate(), window_function=Returned(a), output_type=pickled
        ),
        "window_all apply": lambda s, t: windows_all(s).apply(ApplyAll()),
        "window_all process": lambda s, t: windows_all(s).process(ProcessAll()),
        "window_all aggregate": lambda s, t: windows_all(s).aggregate(Aggregate(), output_type=pickled),
    }


def Returned(a: Any) -> Any:
    class Returned(a.ProcessWindowFunction):  # type: ignore[misc]
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            return [repr(list(elements))]

        def clear(self, context: Any) -> None:
            pass

    return Returned()


def reprs(emitted: list[Any]) -> list[list[str]]:
    """What was emitted for each of the returns, by the marks between them."""
    found: list[list[str]] = [[]]
    for value in emitted:
        if value in ("|", "['|']"):
            found.append([])
        else:
            found[-1].append(repr(value))
    return found
