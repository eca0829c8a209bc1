"""An alert when a service logs five errors within a minute: a pattern of events over lines of a log.

    python examples/gallery/log_alerts.py

    lines ─▶ parsed ─▶ by service ─▶ five errors in less than a minute ─▶ alerts, as JSON

Other lines may lie between the errors. An alert takes its five errors with it: the next one needs five others.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tidegate.cep import CEP, AfterMatchSkipStrategy, Pattern
from tidegate.common import Duration, Row, Time, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment

LINES, SERVICES = 50_000, 25
START_MS = 1_767_571_200_000
LEVELS = ["DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR"]
Entry: TypeAlias = tuple[str, str, int, str]
"""Service, level, ms, message."""
ENTRY = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.STRING()])
ALERT = Types.ROW_NAMED(
    ["service", "first_ms", "last_ms", "messages"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.LIST(Types.STRING())],
)

FIVE_ERRORS = (
    Pattern.begin("errors", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda entry: entry[1] == "ERROR")
    .times(5)
    .within(Time.minutes(1))
)


def parse(line: str) -> Entry:
    """Reads ``2026-01-05T00:00:00.250+00:00 ERROR billing-3: no answer``."""
    at, level, service, message = line.split(" ", 3)
    return service.removesuffix(":"), level, round(datetime.fromisoformat(at).timestamp() * 1000), message


def alert(match: dict[str, list[Entry]]) -> Row:
    errors = match["errors"]
    return Row(errors[0][0], errors[0][2], errors[-1][2], [error[3] for error in errors])


def write_input(directory: Path) -> None:
    """Two hours of log. Lines of several services are up to a second out of order; errors come in bursts."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(44)
    at = START_MS + np.sort(rng.integers(0, 7_200_000, LINES))
    services = rng.integers(0, SERVICES, LINES)
    is_bad = (at // 90_000 + services) % 11 == 0  # a bad minute and a half of one service
    levels = np.where(rng.random(LINES) < np.where(is_bad, 0.5, 0.02), 5, rng.integers(0, 5, LINES))
    lines = []
    for n in np.argsort(at + rng.integers(0, 1000, LINES)):
        moment = datetime.fromtimestamp(at[n] / 1000, UTC).isoformat(timespec="milliseconds")
        lines.append(
            f"{moment} {LEVELS[levels[n]]} service-{services[n]:02}: request {n} of client {n * 7919 % 1000}\n"
        )
    (directory / "shop.log").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="alerts when a service logs five errors within a minute")
    parser.add_argument("--directory", type=Path, default=Path("out/gallery/log_alerts"), help="of input and output")
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the lines down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    log = ThrottledSource(FileSource.for_text(str(directory / "shop.log")), arguments.rows_per_second)
    lines = env.from_source(log, WatermarkStrategy.no_watermarks(), "log").set_parallelism(1)
    in_a_second = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    entries = lines.map(parse, ENTRY).name("parse").set_parallelism(1)
    timed = entries.assign_timestamps_and_watermarks(in_a_second.with_timestamp_assigner(lambda entry, _: entry[2]))
    by_service = timed.key_by(lambda entry: entry[0], Types.STRING())
    alerts = CEP.pattern(by_service, FIVE_ERRORS).select(alert, ALERT).name("five errors").uid("alerts")
    alerts.sink_to(FileSink.for_json_lines(str(directory / "alerts"))).name("alerts").uid("files")
    env.execute("log alerts")


if __name__ == "__main__":
    main()
