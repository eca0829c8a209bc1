#!/usr/bin/env python3
"""Take the pictures of the web page in `docs/images`: a real job on a real cluster, in the system's Chromium.

python docs/screenshots.py               writes web_graph.png and web_checkpoint.png, in about a minute
python docs/screenshots.py gallery       writes gallery/*.png: the programs of examples/gallery, each while it runs
python docs/screenshots.py gallery NAME  one of them
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

import pyarrow as pa  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402

from tests.browser.chromium import ARGUMENTS, NAMES  # noqa: E402
from tidegate.cli.client import JobManagerClient  # noqa: E402
from tidegate.cli.options import client_at  # noqa: E402
from tidegate.common import Duration, JobClient, Row, Time, Types, WatermarkStrategy  # noqa: E402
from tidegate.connectors.files import FileSink  # noqa: E402
from tidegate.connectors.generators import DataGeneratorSource  # noqa: E402
from tidegate.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment  # noqa: E402
from tidegate.datastream.state import MapStateDescriptor  # noqa: E402
from tidegate.datastream.window import TumblingEventTimeWindows  # noqa: E402
from tidegate.model.configuration import Configuration  # noqa: E402
from tidegate.testing import MiniCluster  # noqa: E402

WIDTH, HEIGHT, HEIGHT_OF_GRAPH = 1280, 1240, 720
CHECKPOINTS = 15
ORDERS_A_SECOND, RATES_A_SECOND = 1000, 5
GALLERY = DOCS.parent / "examples" / "gallery"
RATES_OF_PROGRAMS = {
    "anomaly_scores": 15_000,
    "cdc_table": 3000,
    "click_partitions": 2500,
    "fraud_rules": 3000,
    "geofencing": 3000,
    "log_alerts": 2500,
    "paid_orders": 2000,
    "sensors_down": 5000,
    "top_products": 5000,
    "user_sessions": 20_000,
}
"""Rows a second: each program runs for about twenty seconds."""
CHECKPOINTS_OF_PROGRAMS = 8
WIDTH_OF_PROGRAMS, HEIGHT_OF_PROGRAMS = 1120, 740
COLOURS = 96
"""Of a picture of the gallery: the page has few, and so the files are small."""
HALF = 500_000_000
"""Orders that each of the two subtasks of the source would make, one range each."""
CURRENCIES = ("EUR", "USD", "GBP", "JPY")
RATES = MapStateDescriptor("rates", Types.STRING(), Types.DOUBLE())
Order: TypeAlias = tuple[str, float, int]
"""Customer, euros, ms."""
ORDER = Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.LONG()])


class InEuros(KeyedBroadcastProcessFunction[str, Row, Row, Order]):
    """Orders in any currency become orders in euros, at the last rate."""

    def process_element(self, value: Row, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Order]:
        rate = ctx.get_broadcast_state(RATES).get(value["currency"]) or 1.0
        yield f"customer-{value['customer']:04}", value["amount"] * rate, ctx.timestamp() or 0

    def process_broadcast_element(self, value: Row, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RATES).put(value["currency"], value["rate"])


def submit(cluster: MiniCluster, output: Path) -> JobClient:
    """Starts the job, whose orders happen now."""
    start_ms = int(time.time() * 1000)

    def orders(first: int, rows: int) -> pa.RecordBatch:
        numbers = range(first, first + rows)
        return pa.RecordBatch.from_pydict(
            {
                "customer": [n * 7919 % 5000 for n in numbers],
                "currency": [CURRENCIES[n % 4] for n in numbers],
                "amount": [float(n * 31 % 200) for n in numbers],
                "at": pa.array(
                    [start_ms + n % HALF * 2000 // ORDERS_A_SECOND for n in numbers], pa.timestamp("ms", "UTC")
                ),
            }
        )

    def rates(first: int, rows: int) -> pa.RecordBatch:
        numbers = range(first, first + rows)
        return pa.RecordBatch.from_pydict(
            {
                "currency": [CURRENCIES[n % 4] for n in numbers],
                "rate": [1 + n % 10 / 100 for n in numbers],
                "at": pa.array([start_ms + n * 1000 // RATES_A_SECOND for n in numbers], pa.timestamp("ms", "UTC")),
            }
        )

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_column("at")
    of_orders = DataGeneratorSource(orders, 2 * HALF, rows_per_second=ORDERS_A_SECOND)
    of_rates = DataGeneratorSource(rates, HALF, rows_per_second=RATES_A_SECOND)
    by_currency = env.from_source(of_orders, times, "orders").key_by("currency")
    of_the_clock = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    changes = env.from_source(of_rates, of_the_clock, "rates").set_parallelism(1).broadcast(RATES)
    euros = by_currency.connect(changes).process(InEuros(), ORDER).name("in euros").uid("euros")
    totals = (
        euros.key_by(lambda order: order[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(lambda a, b: (a[0], a[1] + b[1], max(a[2], b[2])))
        .name("totals by customer")
        .uid("totals")
    )
    named = Types.ROW_NAMED(["customer", "euros", "last"], [Types.STRING(), Types.DOUBLE(), Types.LONG()])
    rows = totals.map(lambda total: total, named).name("rows").set_parallelism(1)
    rows.sink_to(FileSink.for_parquet(str(output))).name("Parquet").set_parallelism(1)
    with cluster.installed():
        return env.execute_async("orders")


def main() -> int:
    """Exit code: 0 when both pictures were written."""
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        print("there is no Chromium on this machine", file=sys.stderr)
        return 1
    if sys.argv[1:2] == ["gallery"]:
        return take_gallery(executable, sys.argv[2:] or sorted(RATES_OF_PROGRAMS))
    with tempfile.TemporaryDirectory(prefix="shop-") as directory:
        options = {"execution.checkpointing.dir": f"{directory}/checkpoints"}
        with MiniCluster(taskmanagers=1, slots=2, configuration=options) as cluster, sync_playwright() as playwright:
            client = submit(cluster, Path(directory) / "totals")
            cluster.wait_for_checkpoints(client, CHECKPOINTS)
            browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
            page = browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT_OF_GRAPH}, color_scheme="dark", timezone_id="UTC"
            )
            job = f"{cluster.rest_url}/#/jobs/{client.get_job_id()}"
            page.goto(job)
            _take(page, ".vertex", "web_graph.png")
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
            page.goto(f"{job}/checkpoints/{cluster.completed_checkpoints(client)}")
            slider = page.locator("input[type=range]")
            slider.fill(str(int(slider.get_attribute("max") or 0) * 2 // 5))  # when barriers are on their way
            _take(page, "text=Time by subtask", "web_checkpoint.png")
            browser.close()
            client.cancel().result()
    return 0


def take_gallery(executable: str, names: list[str]) -> int:
    """Runs programs of the gallery, one after the other and slowly, and takes the page of each when it has had some checkpoints."""
    (DOCS / "images" / "gallery").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="gallery-") as directory,
        MiniCluster(taskmanagers=1, slots=2) as cluster,
        closing(client_at(Configuration.from_strings({}), cluster.address)) as client,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        for name in names:
            job_id = _submit_program(cluster, name, Path(directory) / name)
            done = partial(_has_checkpoints, client, job_id)
            cluster.wait_until(done, f"{CHECKPOINTS_OF_PROGRAMS} checkpoints of {name}")
            page = browser.new_page(
                viewport={"width": WIDTH_OF_PROGRAMS, "height": HEIGHT_OF_PROGRAMS},
                color_scheme="light",
                timezone_id="UTC",
            )
            page.goto(f"{cluster.rest_url}/#/jobs/{job_id}")
            _take(page, ".vertex", f"gallery/{name}.png")
            page.close()
            _with_few_colours(DOCS / "images" / "gallery" / f"{name}.png")
            client.cancel(job_id)
        browser.close()
    return 0


def _submit_program(cluster: MiniCluster, name: str, directory: Path) -> str:
    """Returns the id of its job."""
    given = ["--directory", str(directory), "--rows-per-second", str(RATES_OF_PROGRAMS[name])]
    command = [sys.executable, "-m", "tidegate.cli.main", "run", "--detached", "-m", cluster.address]
    done = subprocess.run([*command, str(GALLERY / f"{name}.py"), *given], capture_output=True, text=True, check=False)
    found = re.findall(r"\b[0-9a-f]{32}\b", done.stdout)
    if done.returncode or not found:
        raise SystemExit(f"{name} was not submitted: {done.stdout}{done.stderr}")
    return str(found[-1])


def _has_checkpoints(client: JobManagerClient, job_id: str) -> bool:
    return client.status(job_id).checkpoints_completed >= CHECKPOINTS_OF_PROGRAMS


def _with_few_colours(picture: Path) -> None:
    with Image.open(picture) as image:
        image.convert("RGB").quantize(COLOURS).save(picture, optimize=True)


def _take(page: Page, shown: str, name: str) -> None:
    """When what the picture is of is shown, and a second later: rates and loads have values then."""
    page.locator(shown).first.wait_for()
    page.wait_for_timeout(1000)
    page.screenshot(path=str(DOCS / "images" / name))
    print(f"wrote docs/images/{name}")


if __name__ == "__main__":
    sys.exit(main())
