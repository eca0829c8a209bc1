"""Functions of one record that Nexmark's queries use, and the types of what they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidegate.common import Row, Types
from tidegate.datastream.window import TimeWindow
from tidegate.functions.interfaces import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from tidegate.functions.state import ListStateDescriptor, ValueStateDescriptor

WINDOW_MS = 10_000

Q3 = Types.ROW_NAMED(["name", "city", "state", "id"], [Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()])
Q4 = Types.ROW_NAMED(["category", "final", "auction"], [Types.LONG(), Types.LONG(), Types.LONG()])
Q5 = Types.ROW_NAMED(["auction", "num", "window_end"], [Types.LONG(), Types.LONG(), Types.LONG()])
Q7 = Types.ROW_NAMED(["auction", "price", "bidder", "dateTime"], [Types.LONG()] * 4)
Q12 = Types.ROW_NAMED(["bidder", "bids", "start", "end"], [Types.LONG()] * 4)


class SellersFirst(KeyedCoProcessFunction):
    """A seller and the auctions of the same id, whichever comes first. Those that came together are one record."""

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
            self.waiting.add_all(value["auctions"])
        else:
            for auction in value["auctions"]:
                yield Row(*seller, auction)


class Closing(KeyedCoProcessFunction):
    """The highest bid while an auction is open; told when it expires. Bids may come before their auction; those of an auction that
    came together are one record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        auction = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()])
        bids = Types.TUPLE([Types.LIST(Types.LONG()), Types.LIST(Types.LONG())])
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", auction))
        self.early = runtime_context.get_list_state(ListStateDescriptor("early", bids))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        opens, closes, highest = value["dateTime"], value["expires"], 0
        early = list(self.early.get())
        for prices, times in early:
            highest = max(highest, _highest(opens, closes, prices, times))
        if early:
            self.early.clear()
        self.auction.update((value["category"], opens, closes, highest))
        ctx.timer_service().register_event_time_timer(closes)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        auction = self.auction.value()
        if auction is None:
            self.early.add((value["prices"], value["times"]))
            return
        category, opens, closes, before = auction
        highest = _highest(opens, closes, value["prices"], value["times"])
        if highest > before:
            self.auction.update((category, opens, closes, highest))

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Row]:
        auction = self.auction.value()
        if auction is not None and auction[3]:
            yield Row(auction[0], auction[3], ctx.get_current_key())


def _highest(opens: int, closes: int, prices: list[int], times: list[int]) -> int:
    return max((price for price, at in zip(prices, times, strict=True) if opens <= at <= closes), default=0)


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


def more_bids(a: Any, b: Any) -> Row:
    return Row(a[0], a[1] + b[1])


class OfWindow(ProcessWindowFunction[Any, Row, Any, TimeWindow]):
    def process(self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Any) -> Iterator[Row]:
        for pair in elements:
            yield Row(key, pair[1], context.window().start, context.window().end)

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        """Nothing is kept."""
