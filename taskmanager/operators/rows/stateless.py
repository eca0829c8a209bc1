"""The operators of ``map``, ``flat_map``, ``filter`` and ``process`` without keyed state. Records keep their timestamps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from tidegate.functions.base import UserCode
from tidegate.model.values import Record
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.taskmanager.operators.rows.timer_service import RecordContext, UnkeyedTimers
from tidegate.taskmanager.operators.user_code.boundary import Blamed, Collector, method_of, stamped, user_error
from tidegate.taskmanager.operators.user_code.user_events import ListeningOperator
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase, UserFunction


class FunctionOperator(FunctionOperatorBase):
    """Base class of operators that call the method ``method`` of a user function for each record, and open and close it."""

    works_on = "records"

    def __init__(self, name: str, func: UserCode, method: str) -> None:
        self._name = name
        self._user = UserFunction(func, name)
        self._call = method_of(func, method)

    def open(self) -> None:
        self._copies = self.context.emitted_copies()
        self._user.open(self.context)

    def close(self) -> None:
        self._user.close()


class MapOperator(FunctionOperator):
    """Calls a map function for each record."""

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        call, taken, copies = self._call, Blamed(batch.values), self._copies
        shared, copy = copies.shared, copies.copy
        try:
            values = copies.all([call(value) for value in islice(taken, 1)])
            if copies.tells(values):
                values += [call(value) for value in taken]
            else:
                values += [made if (made := call(value)).__class__ in shared else copy(made) for value in taken]
        except Exception as error:
            raise user_error(self._name, error, *taken.record()) from error
        self.context.output.emit(RecordsBatch(values, batch.timestamps))


class FilterOperator(FunctionOperator):
    """Keeps the records for which a filter function returns true."""

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        call, taken, copies = self._call, Blamed(batch.values), self._copies
        try:
            if copies.tells(batch.values[:1]) or copies.are_shared(batch.values):
                kept = [i for i, value in enumerate(taken) if call(value)]
            else:
                values = batch.values.copy()
                kept = self._filtered(values, taken, copies.copy)
                batch = RecordsBatch(values, batch.timestamps)
        except Exception as error:
            raise user_error(self._name, error, *taken.record()) from error
        if len(kept) == len(batch.values):
            self.context.output.emit(batch)
        elif kept:
            stamps = None if batch.timestamps is None else [batch.timestamps[i] for i in kept]
            self.context.output.emit(RecordsBatch([batch.values[i] for i in kept], stamps))

    def _filtered(self, values: list[Record], taken: Iterable[Record], copy: Callable[[Record], Record]) -> list[int]:
        """Returns the indices of the records that are kept, and replaces these in ``values`` by copies."""
        kept = []
        for i, value in enumerate(taken):
            if self._call(value):
                kept.append(i)
                values[i] = copy(value)
        return kept


class FlatMapOperator(FunctionOperator):
    """Emits the elements of the iterable that the function yields or returns; nothing for ``None``."""

    def open(self) -> None:
        self._collector = Collector(self.context)
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        call, collector = self._call, self._collector
        stamps = batch.timestamps or [None] * len(batch.values)
        for value, stamp in zip(batch.values, stamps, strict=True):
            try:
                collector.add_all(call(value), stamp)
            except Exception as error:
                raise user_error(self._name, error, value) from error
            if collector.is_full():
                collector.flush()
        collector.flush()


class ProcessOperator(ListeningOperator):
    """The operator of ``ProcessFunction`` (one input) and ``CoProcessFunction`` (two), without keys."""

    works_on = "records"

    def __init__(self, name: str, func: UserCode, methods: tuple[str, ...]) -> None:
        self._name = name
        self._user = UserFunction(func, name)
        self._calls = [method_of(func, method) for method in methods]

    def open(self) -> None:
        self._timers = UnkeyedTimers(self.context)
        self._record = RecordContext(self._timers)
        self._collector = Collector(self.context)
        self._user.open(self.context, collector=self._collector)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        self._collector.add_each(self._calls[input_index], self._record, stamped(batch), self._name)
        self._collector.flush()

    def on_watermark(self, timestamp_ms: int) -> None:
        self._timers.watermark = timestamp_ms
        super().on_watermark(timestamp_ms)

    def close(self) -> None:
        self._user.close()
