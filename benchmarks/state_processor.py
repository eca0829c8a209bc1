"""A large savepoint is made from tables, read, and changed, in bounded memory.

    python benchmarks/state_processor.py --gigabytes 5 --directory /data

Bound the memory of the process from outside, by a cgroup say, to see that it suffices. What is shown is measured by the
process itself: time, rate, and the most anonymous memory, which the kernel cannot take back as it can pages of mapped files.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tidegate.common.typeinfo import Types
from tidegate.functions.state import ValueStateDescriptor
from tidegate.state_processor import OperatorIdentifier, OperatorTransformation, SavepointReader, SavepointWriter

VALUE_BYTES = 112
"""With its key, its key group and its offset, a row has 128 bytes."""
ROW_BYTES = 128
BATCH_ROWS = 250_000
COUNTS = OperatorIdentifier.for_uid("counts")
STATE = ValueStateDescriptor("last", Types.STRING())
SAMPLE_S = 0.02
"""Memory that is held for a shorter time may be missed."""


class Peak:
    """The most anonymous memory of this process, in MiB, sampled."""

    def __init__(self) -> None:
        self.mib = 0.0
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while True:
            text = Path("/proc/self/status").read_text()
            (line,) = [line for line in text.splitlines() if line.startswith("RssAnon")]
            self.mib = max(self.mib, int(line.split()[1]) / 1024)
            time.sleep(SAMPLE_S)


def tables(rows: int) -> Iterator[pa.Table]:
    """Keys in no order of their key groups."""
    for first in range(0, rows, BATCH_ROWS):
        keys = np.arange(first, min(rows, first + BATCH_ROWS))
        values = np.char.zfill(keys.astype(np.bytes_), VALUE_BYTES)
        yield pa.table({"key": keys, "value": pa.array(values).cast(pa.string())})


@click.command(help=__doc__)
@click.option("--gigabytes", default=2.0, show_default=True)
@click.option("--directory", default=None, help="Where the savepoints are; default: the temporary directory.")
def main(gigabytes: float, directory: str | None) -> None:
    peak, rows = Peak(), int(gigabytes * 2**30 / ROW_BYTES)
    with tempfile.TemporaryDirectory(dir=directory) as place:
        first, second = f"{place}/made", f"{place}/changed"

        def timed(what: str, work: Callable[[], None]) -> None:
            began_s = time.perf_counter()
            work()
            took_s = time.perf_counter() - began_s
            rate = gigabytes * 1024 / took_s
            print(f"{what}: {took_s:.0f} s, {rate:.0f} MiB/s, at most {peak.mib:.0f} MiB anonymous", flush=True)

        def bootstrap() -> None:
            state = OperatorTransformation.bootstrap_with(tables(rows)).key_by("key", Types.LONG()).transform(STATE)
            SavepointWriter.new_savepoint().with_operator(COUNTS, state).write(first, temporary_directory=place)

        def read() -> None:
            reader = SavepointReader.read(first)
            found = sum(table.num_rows for table in reader.read_keyed_state(COUNTS, "last"))
            assert found == rows, (found, rows)

        def change() -> None:
            reader = SavepointReader.read(first)

            def upper() -> Iterator[pa.Table]:
                for table in reader.read_keyed_state(COUNTS, "last"):
                    value = pc.utf8_reverse(table["value"])
                    yield table.set_column(table.schema.get_field_index("value"), table.schema.field("value"), value)

            changed = OperatorTransformation.bootstrap_with(upper()).like(reader, COUNTS, "last")
            writer = SavepointWriter.from_existing_savepoint(first).with_state(COUNTS, changed)
            writer.write(second, temporary_directory=place)

        def rename() -> None:
            writer = SavepointWriter.from_existing_savepoint(second)
            writer.change_operator_identifier(COUNTS, OperatorIdentifier.for_uid("other")).write(f"{place}/renamed")

        timed("made from tables", bootstrap)
        size = sum(file.stat().st_size for file in Path(first).iterdir())
        print(f"  {rows:,} rows, {size / 2**30:.2f} GiB of files")
        timed("read", read)
        timed("changed, each row", change)
        timed("another uid, copied", rename)


if __name__ == "__main__":
    main()
