"""Accumulators: small values that user functions add up, and that the program gets with the job's result (Flink:
``org.apache.flink.api.common.accumulators``; PyFlink reads the results, and its functions have none).

    add ─▶ sent as (type, JSON) with the subtask's metrics ─▶ merged by type in the JobManager ─▶ result

A subtask adds to its own; values of subtasks are merged. Nothing is pickled: the JobManager reads JSON, and knows only the types
below. An attempt starts from nothing, as in Flink: accumulators are no state, and what a failed attempt had added is not in the result.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

from tidegate.model.errors import InvalidJob
from tidegate.model.values import Json

LIST_MAX_BYTES = 1 << 20
"""The most bytes of one list in one subtask, as JSON: it is part of every report."""


class SerializedAccumulator(NamedTuple):
    """A serialized accumulator."""

    type: str
    value: str
    """The accumulator as JSON, in the form of its type."""


V = TypeVar("V")
R = TypeVar("R")


class Accumulator(ABC, Generic[V, R]):
    """Adds up values of type ``V`` to a result of type ``R`` (Flink: ``Accumulator.java``)."""

    @abstractmethod
    def add(self, value: V) -> None:
        """Adds a value."""

    @abstractmethod
    def get_local_value(self) -> R:
        """Returns the result of this subtask alone."""

    @abstractmethod
    def reset_local(self) -> None:
        """Resets the accumulator to its initial state."""

    @abstractmethod
    def merge(self, other: Accumulator[V, R]) -> None:
        """Merges another accumulator of the same type."""

    @abstractmethod
    def to_json(self) -> str:
        """Serializes the accumulator to JSON."""

    @classmethod
    @abstractmethod
    def from_json(cls, text: str) -> Accumulator[V, R]:
        """Deserializes an accumulator from JSON."""

    def shown(self) -> str:
        """Returns the result as pages show it."""
        return str(self.get_local_value())

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.shown()}"


UserAccumulator: TypeAlias = Accumulator[Any, Any]
"""An accumulator of a program, with whatever types of values and results it was registered."""

A = TypeVar("A", bound=UserAccumulator)
N = TypeVar("N", int, float)


class _Number(Accumulator[N, N]):
    """The base of accumulators of one number. ``empty``: the result before the first value, as in Java; ``kind``: its name on the wire."""

    empty: ClassVar[float] = 0
    kind: ClassVar[type[int] | type[float]] = int

    def __init__(self, value: N | None = None) -> None:
        self._value: Any = self.empty if value is None else value

    def get_local_value(self) -> N:
        value: N = self._value
        return value

    def reset_local(self) -> None:
        self._value = self.empty

    def merge(self, other: Accumulator[N, N]) -> None:
        self.add(other.get_local_value())

    def to_json(self) -> str:
        return json.dumps(self.kind(self._value))

    @classmethod
    def from_json(cls, text: str) -> _Number[N]:
        return cls(json.loads(text))


class _Sum(_Number[N]):
    def add(self, value: N) -> None:
        self._value += value


class _Minimum(_Number[N]):
    def add(self, value: N) -> None:
        if value < self._value:
            self._value = value


class _Maximum(_Number[N]):
    def add(self, value: N) -> None:
        if value > self._value:
            self._value = value


class IntCounter(_Sum[int]):
    """A sum of whole numbers (Flink's ``int``). Python's do not overflow, so only the name differs from ``LongCounter``."""


class LongCounter(_Sum[int]):
    """A sum of whole numbers."""


class DoubleCounter(_Sum[float]):
    """A sum of floats."""

    empty = 0.0
    kind = float


class IntMinimum(_Minimum[int]):
    """The minimum of whole numbers (Flink's ``int``); 2147483647 before the first value."""

    empty = 2**31 - 1


class IntMaximum(_Maximum[int]):
    """The maximum of whole numbers (Flink's ``int``); -2147483648 before the first value."""

    empty = -(2**31)


class LongMinimum(_Minimum[int]):
    """The minimum of whole numbers (Flink's ``long``); 2**63 - 1 before the first value."""

    empty = 2**63 - 1


class LongMaximum(_Maximum[int]):
    """The maximum of whole numbers (Flink's ``long``); -2**63 before the first value."""

    empty = -(2**63)


class DoubleMinimum(_Minimum[float]):
    """The minimum of floats; infinity before the first value."""

    empty = float("inf")
    kind = float


class DoubleMaximum(_Maximum[float]):
    """The maximum of floats; minus infinity before the first value."""

    empty = float("-inf")
    kind = float


class AverageAccumulator(Accumulator[float, float]):
    """The mean of the added numbers; 0.0 before the first one."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        self._sum += value
        self._count += 1

    def get_local_value(self) -> float:
        return self._sum / self._count if self._count else 0.0

    def reset_local(self) -> None:
        self._sum, self._count = 0.0, 0

    def merge(self, other: Accumulator[float, float]) -> None:
        assert isinstance(other, AverageAccumulator)
        self._sum += other._sum
        self._count += other._count

    def to_json(self) -> str:
        return json.dumps([float(self._sum), self._count])

    @classmethod
    def from_json(cls, text: str) -> AverageAccumulator:
        found = cls()
        found._sum, found._count = json.loads(text)
        return found

    def __str__(self) -> str:
        return f"AverageAccumulator {self.get_local_value()} for {self._count} elements"


class Histogram(Accumulator[int, dict[int, int]]):
    """Counts how often each whole number was added, sorted by number. For few distinct numbers."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, value: int) -> None:
        self._counts[value] = self._counts.get(value, 0) + 1

    def get_local_value(self) -> dict[int, int]:
        return dict(sorted(self._counts.items()))

    def reset_local(self) -> None:
        self._counts.clear()

    def merge(self, other: Accumulator[int, dict[int, int]]) -> None:
        for value, count in other.get_local_value().items():
            self._counts[value] = self._counts.get(value, 0) + count

    def to_json(self) -> str:
        return json.dumps([[int(value), count] for value, count in self._counts.items()])

    @classmethod
    def from_json(cls, text: str) -> Histogram:
        found = cls()
        found._counts = {int(value): int(count) for value, count in json.loads(text)}
        return found


class ListAccumulator(Accumulator[Json, list[Json]]):
    """A list of the added values; the order among subtasks is arbitrary. For few small JSON values (texts, numbers, booleans, ``None``, lists and dicts
    of them; a tuple comes back as a list), since the whole list is part of every report. ``add`` raises ``InvalidJob`` for any other value, and
    beyond 1 MiB in one subtask."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._size_bytes = 0

    def add(self, value: Json) -> None:
        try:
            text = json.dumps(value)
        except (TypeError, ValueError) as error:
            raise InvalidJob(
                f"a ListAccumulator takes texts, numbers and lists of them, not {value!r}: {error}"
            ) from None
        self._size_bytes += len(text) + 2
        if self._size_bytes > LIST_MAX_BYTES:
            raise InvalidJob(
                f"a ListAccumulator holds 1 MiB in each subtask, and {len(self._texts)} values have filled it: it is for a "
                "few values, write the others to a sink"
            )
        self._texts.append(text)

    def get_local_value(self) -> list[Json]:
        return [json.loads(text) for text in self._texts]

    def reset_local(self) -> None:
        self._texts.clear()
        self._size_bytes = 0

    def merge(self, other: Accumulator[Json, list[Json]]) -> None:
        """Appends another list, without the size limit, which applies to each subtask."""
        assert isinstance(other, ListAccumulator)
        self._texts.extend(other._texts)
        self._size_bytes += other._size_bytes

    def to_json(self) -> str:
        return f"[{', '.join(self._texts)}]"

    @classmethod
    def from_json(cls, text: str) -> ListAccumulator:
        found = cls()
        found._texts = [json.dumps(value) for value in json.loads(text)]
        found._size_bytes = len(text)
        return found


class Mixed(UserAccumulator):
    """Values of different types under one name: there is no result, and reading it raises an error that says so."""

    def __init__(self, types: Iterable[str]) -> None:
        self.types = sorted(set(types))

    def add(self, value: object) -> None:
        raise self._error()

    def get_local_value(self) -> NoReturn:
        raise self._error()

    def reset_local(self) -> None:
        raise self._error()

    def merge(self, other: UserAccumulator) -> None:
        self.types = sorted({*self.types, *(other.types if isinstance(other, Mixed) else [type(other).__name__])})

    def to_json(self) -> str:
        return json.dumps(self.types)

    @classmethod
    def from_json(cls, text: str) -> Mixed:
        return cls(json.loads(text))

    def _error(self) -> InvalidJob:
        return InvalidJob(
            f"an accumulator has the type {' in one operator and '.join(self.types)} in another: give them different names"
        )

    def shown(self) -> str:
        return self._error().message


_TYPES: dict[str, type[UserAccumulator]] = {
    kind.__name__: kind
    for kind in (
        AverageAccumulator,
        DoubleCounter,
        DoubleMaximum,
        DoubleMinimum,
        Histogram,
        IntCounter,
        IntMaximum,
        IntMinimum,
        ListAccumulator,
        LongCounter,
        LongMaximum,
        LongMinimum,
        Mixed,
    )
}


def check_known(name: str, accumulator: object) -> None:
    """Raises ``InvalidJob`` for an accumulator type that the JobManager cannot merge."""
    if _TYPES.get(type(accumulator).__name__) is not type(accumulator):
        known = ", ".join(sorted(set(_TYPES) - {Mixed.__name__}))
        raise InvalidJob(
            f"accumulator '{name}' is a {type(accumulator).__name__}, which the JobManager cannot merge; there are {known}"
        )


def serialized(accumulators: Mapping[str, UserAccumulator]) -> dict[str, SerializedAccumulator]:
    """Serializes accumulators."""
    return {name: SerializedAccumulator(type(found).__name__, found.to_json()) for name, found in accumulators.items()}


def merged(parts: Iterable[Mapping[str, SerializedAccumulator]]) -> dict[str, UserAccumulator]:
    """Merges the accumulators of several subtasks, sorted by name."""
    found: dict[str, UserAccumulator] = {}
    for part in parts:
        for name, (kind, text) in part.items():
            _join(found, name, _TYPES[kind].from_json(text))
    return dict(sorted(found.items()))


def results(accumulators: Mapping[str, UserAccumulator]) -> dict[str, Json]:
    """Returns the results of accumulators by name. Raises ``InvalidJob`` when one has several types."""
    return {name: accumulator.get_local_value() for name, accumulator in accumulators.items()}


def _join(found: dict[str, UserAccumulator], name: str, one: UserAccumulator) -> None:
    """Merges an accumulator into the one of its name; a first one is stored itself, others are not changed."""
    before = found.setdefault(name, one)
    if before is one:
        return
    if type(before) is not type(one) and not isinstance(before, Mixed):
        before = found[name] = Mixed([type(before).__name__])
    before.merge(one)
