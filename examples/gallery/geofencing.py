"""Vans that enter and leave areas whose borders are changed on the way: a function of two keyed streams.

    python examples/gallery/geofencing.py

    positions ─▶ by city ─┐
                          ├─▶ which area is the van in, and which was it in before? ─▶ entered, left ─▶ JSON
    areas ─────▶ by city ─┘

Both streams are taken in the order of event time, so a van is held against the borders of its moment.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import KeyedCoProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import MapStateDescriptor

CITIES = ["Berlin", "Hamburg", "Leipzig", "Munich"]
VANS, STEPS, AREAS, SIDE_M = 200, 300, 12, 10_000
START_MS, STEP_MS = 1_767_571_200_000, 30_000
EVENT = Types.ROW_NAMED(
    ["van", "area", "what", "at_ms"], [Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG()]
)


def contains(border: list[tuple[float, float]], x: float, y: float) -> bool:
    """Casts a ray to the right: a point inside of a polygon crosses its border an odd number of times."""
    inside = False
    for (x1, y1), (x2, y2) in zip(border, border[1:] + border[:1], strict=True):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
            inside = not inside
    return inside


class Fences(KeyedCoProcessFunction):
    """Keeps the borders of a city's areas, and the areas that each of its vans is in."""

    def open(self, runtime_context: RuntimeContext) -> None:
        anything = Types.PICKLED_BYTE_ARRAY()
        self.waiting = runtime_context.get_map_state(MapStateDescriptor("waiting", Types.LONG(), anything))
        self.borders = runtime_context.get_map_state(MapStateDescriptor("borders", Types.STRING(), anything))
        self.inside = runtime_context.get_map_state(MapStateDescriptor("inside", Types.STRING(), anything))

    def process_element1(self, position: Row, ctx: KeyedCoProcessFunction.Context) -> None:
        self._wait(ctx, (1, position["van"], position["x"], position["y"]))

    def process_element2(self, area: Row, ctx: KeyedCoProcessFunction.Context) -> None:
        self._wait(ctx, (0, area["area"], area["xs"], area["ys"]))

    def _wait(self, ctx: KeyedCoProcessFunction.Context, event: tuple[int, str, object, object]) -> None:
        at = ctx.timestamp()
        assert at is not None, "the watermark strategy gives each of them its time"
        self.waiting.put(at, [*(self.waiting.get(at) or []), event])
        ctx.timer_service().register_event_time_timer(at)

    def on_timer(self, at: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Row]:
        for is_position, name, x, y in sorted(self.waiting.get(at) or [], key=lambda event: event[:2]):  # areas first
            if not is_position:
                self.borders.put(name, list(zip(x, y, strict=True)))
                continue
            before = self.inside.get(name) or frozenset()
            now = frozenset(area for area, border in self.borders.items() if contains(border, x, y))
            if now != before:
                self.inside.put(name, now)
                yield from (Row(name, area, "left", at) for area in sorted(before - now))
                yield from (Row(name, area, "entered", at) for area in sorted(now - before))
        self.waiting.remove(at)


def write_input(directory: Path) -> None:
    """Vans that wander for hours, and areas with six corners each, of which some move in the second hour."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(43)
    turns = np.cumsum(rng.normal(0, 0.4, (STEPS, VANS)), axis=0)
    moved = rng.uniform(0, SIDE_M, (2, 1, VANS)) + np.cumsum(150 * np.stack([np.cos(turns), np.sin(turns)]), axis=1)
    x, y = SIDE_M - np.abs(moved % (2 * SIDE_M) - SIDE_M)  # they turn round at the edges of the map
    at = START_MS + np.arange(STEPS)[:, None] * STEP_MS + np.arange(VANS)[None, :] * (STEP_MS // VANS)
    vans = np.tile(np.arange(VANS), STEPS)
    positions = {"city": [CITIES[van % 4] for van in vans], "van": [f"van-{van:03}" for van in vans]}
    times = pa.array(at.ravel()).cast(pa.timestamp("ms", "UTC"))
    pq.write_table(
        pa.table({**positions, "x": x.ravel(), "y": y.ravel(), "at": times}), directory / "positions.parquet"
    )
    corners = np.arange(6) * np.pi / 3
    areas = []
    for number in range(AREAS * 4 * 3 // 2):
        (middle_x, middle_y), radius = rng.uniform(0, SIDE_M, 2), rng.uniform(400, 1500)
        since = START_MS if number < AREAS * 4 else START_MS + 3_600_000 + number * 60_000
        border = {"xs": middle_x + radius * np.cos(corners), "ys": middle_y + radius * np.sin(corners)}
        areas.append({"city": CITIES[number % 4], "area": f"area-{number % (AREAS * 4):02}", "at_ms": since, **border})
    table = pa.Table.from_pylist(areas)
    times = table["at_ms"].cast(pa.timestamp("ms", "UTC"))
    pq.write_table(table.drop_columns("at_ms").append_column("at", times), directory / "areas.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description="vans that enter and leave areas")
    parser.add_argument("--directory", type=Path, default=Path("out/gallery/geofencing"), help="of input and output")
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the positions down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    driven = ThrottledSource(FileSource.for_parquet(str(directory / "positions.parquet")), arguments.rows_per_second)
    positions = env.from_source(driven, in_order, "positions").set_parallelism(1).key_by("city")
    drawn = FileSource.for_parquet(str(directory / "areas.parquet"))
    areas = env.from_source(drawn, in_order, "areas").set_parallelism(1).key_by("city")
    events = positions.connect(areas).process(Fences(), EVENT).name("fences").uid("fences")
    events.sink_to(FileSink.for_json_lines(str(directory / "events"))).name("events").uid("events")
    env.execute("geofencing")


if __name__ == "__main__":
    main()
