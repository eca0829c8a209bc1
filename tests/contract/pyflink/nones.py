"""``None`` and other things that are no values, given to every method of keyed state: for PyFlink and for tidegate.

A case is a script, which is run with the record ``"write"``; the state is read with every record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KINDS = ("value", "list", "map", "reducing", "aggregating")
_ONE = {
    "LONG": (1, 2),
    "PICKLED_BYTE_ARRAY": (1, 2),
}
TYPES = tuple(_ONE)


def _scripts() -> dict[str, dict[str, Callable[[Any, Any, Any], Any]]]:
    """By kind and name: a call with the state and two values of its type."""
    return {
        "value": {
            "update(None)": lambda s, a, b: s.update(None),
            "update(a), update(None)": lambda s, a, b: [s.update(a), s.update(None)],
        },
        "list": {
            "update(None)": lambda s, a, b: s.update(None),
            "add(a), update(None)": lambda s, a, b: [s.add(a), s.update(None)],
            "update([])": lambda s, a, b: s.update([]),
            "add(a), update([])": lambda s, a, b: [s.add(a), s.update([])],
            "update([None])": lambda s, a, b: s.update([None]),
            "update([a, None, b])": lambda s, a, b: s.update([a, None, b]),
            "update((a, b))": lambda s, a, b: s.update((a, b)),
            "update(generator)": lambda s, a, b: s.update(one for one in (a, b)),
            "update(set)": lambda s, a, b: s.update({a}),
            "update(dict)": lambda s, a, b: s.update({a: b}),
            "update(5)": lambda s, a, b: s.update(5),
            "add(None)": lambda s, a, b: s.add(None),
            "add(a), add(None)": lambda s, a, b: [s.add(a), s.add(None)],
            "add_all(None)": lambda s, a, b: s.add_all(None),
            "add(a), add_all(None)": lambda s, a, b: [s.add(a), s.add_all(None)],
            "add(a), add_all([])": lambda s, a, b: [s.add(a), s.add_all([])],
            "add_all([a, None])": lambda s, a, b: s.add_all([a, None]),
            "add_all(generator)": lambda s, a, b: s.add_all(one for one in (a, b)),
            "add(a), add_all(5)": lambda s, a, b: [s.add(a), s.add_all(5)],
        },
        "map": {
            "put(k, None)": lambda s, a, b: s.put("k", None),
            "put(k, a), put(k, None)": lambda s, a, b: [s.put("k", a), s.put("k", None)],
            "put_all({k: None})": lambda s, a, b: s.put_all({"k": None}),
            "put_all({k: None, l: a})": lambda s, a, b: s.put_all({"k": None, "l": a}),
            "put_all(pairs)": lambda s, a, b: s.put_all([("k", a), ("l", None)]),
            "put(k, a), put_all(items)": lambda s, a, b: [s.put("k", a), s.put_all({"l": b}.items())],
            "put_all(5)": lambda s, a, b: s.put_all(5),
            "put_all({})": lambda s, a, b: s.put_all({}),
            "put_all(None)": lambda s, a, b: s.put_all(None),
            "put(k, a), put_all(None)": lambda s, a, b: [s.put("k", a), s.put_all(None)],
            "put(None, a)": lambda s, a, b: s.put(None, a),
            "put(k, None), remove(k)": lambda s, a, b: [s.put("k", None), s.remove("k")],
            "remove(None)": lambda s, a, b: s.remove(None),
        },
        "reducing": {
            "add(None)": lambda s, a, b: s.add(None),
            "add(a), add(None)": lambda s, a, b: [s.add(a), s.add(None)],
            "add(None), add(a)": lambda s, a, b: [s.add(None), s.add(a)],
        },
        "aggregating": {
            "add(None)": lambda s, a, b: s.add(None),
            "add(a), add(None)": lambda s, a, b: [s.add(a), s.add(None)],
            "add(a), add(None), add(b)": lambda s, a, b: [s.add(a), s.add(None), s.add(b)],
        },
    }


SCRIPTS = [(kind, name) for kind, scripts in _scripts().items() for name in scripts]


def function(a: Any, kind: str, name: str, type_name: str) -> Any:
    """The process function of a case; ``a`` has the names of PyFlink or tidegate. It emits what was raised, and what is read."""
    one, other = _ONE[type_name]

    class Kept(a.AggregateFunction):  # type: ignore[misc]
        def create_accumulator(self) -> Any:
            return one

        def add(self, value: Any, accumulator: Any) -> Any:
            return value

        def get_result(self, accumulator: Any) -> Any:
            return accumulator

        def merge(self, a: Any, b: Any) -> Any:
            return b

    class Reduce(a.ReduceFunction):  # type: ignore[misc]
        def reduce(self, value1: Any, value2: Any) -> Any:
            return value2

    class Case(a.KeyedProcessFunction):  # type: ignore[misc]
        def open(self, runtime_context: Any) -> None:
            of = getattr(a.Types, type_name)()
            if kind == "value":
                self.state = runtime_context.get_state(a.ValueStateDescriptor("s", of))
            elif kind == "list":
                self.state = runtime_context.get_list_state(a.ListStateDescriptor("s", of))
            elif kind == "map":
                self.state = runtime_context.get_map_state(a.MapStateDescriptor("s", a.Types.STRING(), of))
            elif kind == "reducing":
                self.state = runtime_context.get_reducing_state(a.ReducingStateDescriptor("s", Reduce(), of))
            else:
                self.state = runtime_context.get_aggregating_state(a.AggregatingStateDescriptor("s", Kept(), of))

        def process_element(self, value: Any, ctx: Any) -> Any:
            if value == "write":
                try:
                    _scripts()[kind][name](self.state, one, other)
                except Exception as error:  # noqa: BLE001  whatever it is
                    yield f"raised {type(error).__name__}"
            yield self.read()

        def on_timer(self, timestamp: Any, ctx: Any) -> Any:
            return []

        def read(self) -> str:
            state = self.state
            if kind == "value":
                return repr(state.value())
            if kind == "map":
                items = sorted(state.items(), key=repr)
                return repr([items, [(k, state.contains(k), state.get(k)) for k, _ in items], state.is_empty()])
            return repr(list(state.get() or ()) if kind == "list" else state.get())

    return Case()
