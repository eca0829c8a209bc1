"""Functions of one record that Nexmark's queries use, and the types of what they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.common import Row, Types
from tidegate.datastream.functions import (
    CoGroupFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from tidegate.datastream.state import ListStateDescriptor, ValueStateDescriptor
from tidegate.datastream.window import TimeWindow

WINDOW_MS = 10_000

Q3 = Types.ROW_NAMED(["name", "city", "state", "id"], [Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()])
Q4 = Types.ROW_NAMED(["category", "final", "auction"], [Types.LONG(), Types.LONG(), Types.LONG()])
Q5 = Types.ROW_NAMED(["auction", "num", "window_end"], [Types.LONG(), Types.LONG(), Types.LONG()])
Q7 = Types.ROW_NAMED(["auction", "price", "bidder", "dateTime"], [Types.LONG()] * 4)
Q8 = Types.ROW_NAMED(["id", "name", "window_start"], [Types.LONG(), Types.STRING(), Types.LONG()])
Q11 = Types.ROW_NAMED(["bidder", "bids", "start", "end"], [Types.LONG()] * 4)


class SellersFirst(KeyedCoProcessFunction):
    """A seller and the auctions of the same id, whichever comes first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        fields = Types.ROW([Types.STRING(), Types.STRING(), Types.STRING()])
        self.seller = runtime_context.get_state(ValueStateDescriptor("seller", fields))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("auctions", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Row]:
        seller = Row(value["name"], value["city"], value["state"])
        self.seller.update(seller)
        for auction in self.waiting.get():
            yield Row(*seller, auction)
        self.waiting.clear()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Row]:
        seller = self.seller.value()
        if seller is None:
            self.waiting.add(value["id"])
        else:
            yield Row(*seller, value["id"])


class Closing(KeyedCoProcessFunction):
    """The highest bid while an auction is open; told when it expires. Bids may come before their auction."""

    def open(self, runtime_context: RuntimeContext) -> None:
        times = Types.ROW([Types.LONG(), Types.LONG(), Types.LONG()])
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", times))
        self.highest = runtime_context.get_state(ValueStateDescriptor("highest", Types.LONG()))
        self.early = runtime_context.get_list_state(
            ListStateDescriptor("early", Types.ROW([Types.LONG(), Types.LONG()]))
        )

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Row]:
        self.auction.update(Row(value["category"], value["dateTime"], value["expires"]))
        for price, at_ms in self.early.get():
            self._bid(price, at_ms)
        self.early.clear()
        ctx.timer_service().register_event_time_timer(value["expires"])
        yield from ()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Row]:
        if self.auction.value() is None:
            self.early.add(Row(value["price"], value["dateTime"]))
        else:
            self._bid(value["price"], value["dateTime"])
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Row]:
        auction, highest = self.auction.value(), self.highest.value()
        if auction is not None and highest is not None:
            yield Row(auction[0], highest, ctx.get_current_key())
        self.highest.clear()

    def _bid(self, price: int, at_ms: int) -> None:
        auction = self.auction.value()
        assert auction is not None
        if auction[1] <= at_ms <= auction[2] and price > (self.highest.value() or 0):
            self.highest.update(price)


class CountOf(ProcessWindowFunction[Any, Row, Any, TimeWindow]):
    def process(self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Any) -> Iterator[Row]:
        for pair in elements:
            yield Row(key, pair[1], context.window().end)

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        """Nothing is kept."""


class MostOf(KeyedProcessFunction):
    """Of the rows of a window, keyed by its end, those with the most bids, when the window is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.rows = runtime_context.get_list_state(ListStateDescriptor("rows", Types.ROW([Types.LONG(), Types.LONG()])))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        self.rows.add(Row(value["auction"], value["num"]))
        ctx.timer_service().register_event_time_timer(value["window_end"])
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Row]:
        rows = list(self.rows.get())
        most = 0
        for _, num in rows:
            most = num if num > most else most
        for auction, num in rows:
            if num == most:
                yield Row(auction, num, ctx.get_current_key())
        self.rows.clear()


class Highest(ProcessWindowFunction[Any, Row, Any, TimeWindow]):
    def process(self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Any) -> Iterator[Row]:
        rows = list(elements)
        best = rows[0]["price"]
        for row in rows:
            best = row["price"] if row["price"] > best else best
        for row in rows:
            if row["price"] == best:
                yield Row(row["auction"], row["price"], row["bidder"], row["dateTime"])

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        """Nothing is kept."""


class NewSellers(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Row]:
        persons, auctions = list(first), list(second)
        if auctions:
            for person in persons:
                yield Row(person["id"], person["name"], person["dateTime"] // WINDOW_MS * WINDOW_MS)


class Session(ProcessWindowFunction[Any, Row, Any, TimeWindow]):
    def process(self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Any) -> Iterator[Row]:
        for pair in elements:
            yield Row(key, pair[1], context.window().start, context.window().end)

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        """Nothing is kept."""
