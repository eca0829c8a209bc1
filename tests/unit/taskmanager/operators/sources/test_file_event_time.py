"""Event time of file sources: no row is behind a watermark, however files are called and whoever reads which."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, start
from tidegate.common import Duration, WatermarkStrategy
from tidegate.common.typeinfo import Types
from tidegate.common.watermark_strategy import Watermark, WatermarkGenerator, WatermarkOutput
from tidegate.connectors.base import Source, Split
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.encoders import EncoderFactory
from tidegate.connectors.formats.avro_files import AvroEncoderFactory, AvroFileFormat
from tidegate.connectors.formats.avro_parquet import AvroParquetEncoderFactory
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream.connectors.file_system import FileSource as PyFlinksFileSource
from tidegate.datastream.connectors.file_system import StreamFormat
from tidegate.datastream.formats.avro import AvroSchema
from tidegate.datastream.formats.csv import CsvReaderFormat, CsvSchema
from tidegate.datastream.formats.parquet import AvroParquetReaders
from tidegate.records.record_codec import encode
from tidegate.taskmanager.operators.sources.source import SourceOperator

AVRO = AvroSchema.parse_string(
    json.dumps({"type": "record", "name": "Row", "fields": [{"name": "at", "type": "long"}]})
)
ROWS = 40
BOUND = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
BY_COLUMN = BOUND.with_timestamp_column("at")
BY_FIELD = BOUND.with_timestamp_assigner(lambda row, _: int(row["at"]))
BY_LINE = BOUND.with_timestamp_assigner(lambda line, _: int(line))


def as_text(path: Path, times: Sequence[int]) -> None:
    path.write_text("".join(f"{time}\n" for time in times))


def as_csv(path: Path, times: Sequence[int]) -> None:
    path.write_text("at,name\n" + "".join(f"{time},row\n" for time in times))


def as_json(path: Path, times: Sequence[int]) -> None:
    path.write_text("".join(f'{{"at": {time}}}\n' for time in times))


def as_parquet(path: Path, times: Sequence[int]) -> None:
    pq.write_table(pa.table({"name": ["row"] * len(times), "at": times}), path, row_group_size=25)


def by(factory: EncoderFactory) -> Callable[[Path, Sequence[int]], None]:
    def write(path: Path, times: Sequence[int]) -> None:
        row = Types.ROW_NAMED(["at"], [Types.LONG()])
        with pa.OSFile(str(path), "wb") as file:
            encoder = factory.open(file, row.arrow_schema())
            encoder.write(encode(row, [(time,) for time in times], "test"))
            encoder.finish()

    return write


def pyflinks(stream_format: Any, path: str) -> Source:
    source: Source = PyFlinksFileSource.for_record_stream_format(stream_format, path).build()
    return source


CELLS = CsvSchema.builder().add_number_column("at").build()
FORMATS: dict[str, tuple[Any, Callable[[str], Source], WatermarkStrategy]] = {
    "text": (as_text, lambda path: FileSource.for_text(path, range_bytes=60), BY_LINE),
    "text lines": (as_text, lambda path: pyflinks(StreamFormat.text_line_format(), path), BY_LINE),
    "csv": (as_csv, lambda path: FileSource.for_csv(path, range_bytes=100), BY_COLUMN),
    "json": (as_json, lambda path: FileSource.for_json_lines(path, range_bytes=100), BY_COLUMN),
    "json as records": (as_json, lambda path: FileSource.for_json_lines(path, range_bytes=100), BY_FIELD),
    "parquet": (as_parquet, FileSource.for_parquet, BY_COLUMN),
    "csv with a schema": (as_text, lambda path: pyflinks(CsvReaderFormat.for_schema(CELLS), path), BY_COLUMN),
    "avro": (
        by(AvroEncoderFactory(AVRO)),
        lambda path: FileSource([path], AvroFileFormat(AVRO), range_bytes=100),
        BY_FIELD,
    ),
    "avro in parquet": (
        by(AvroParquetEncoderFactory(AVRO)),
        lambda path: pyflinks(AvroParquetReaders.for_generic_record(AVRO), path),
        BY_FIELD,
    ),
}


def reading(
    source: Source,
    strategy: WatermarkStrategy,
    subtask: int = 0,
    parallelism: int = 1,
    splits: Sequence[Split] | None = None,
    restored: Any = None,
) -> Running:
    listed = source.list_splits(parallelism) if splits is None else splits
    options = {"source": source, "splits": tuple(listed), "watermark_strategy": strategy}
    made = spec("source", output_type=source.produced_type(), options=options)
    return start(made, subtask, parallelism, restored)


def read(running: Running, rows: int | None = None) -> None:
    """All, or so many more."""
    operator = running.operator
    assert isinstance(operator, SourceOperator)
    before = len(running.out.stamps())
    while not operator.is_finished() and (rows is None or len(running.out.stamps()) < before + rows):
        operator.poll_next(4)
        running.timers.advance_to(running.clock.ms + 200)


def stamps_behind_watermarks(*runs: Running) -> list[int]:
    """Of all rows; none of them is at or before a watermark that left before it."""
    found: list[int] = []
    for running in runs:
        batches, watermarks = iter(running.out.batches), iter(running.out.watermarks)
        reached = -(2**63)
        for what in running.out.order:
            if what == "watermark":
                reached = next(watermarks)
                continue
            batch = next(batches)
            assert batch.timestamps is not None
            given: Any = batch.timestamps
            stamps = [int(stamp) for stamp in (given.to_pylist() if isinstance(given, pa.Array) else given)]
            assert min(stamps) > reached, "a row is late"
            found += stamps
    return sorted(found)


def write_backwards(directory: Path, write: Any, files: int = 3) -> list[int]:
    """The first by name has the latest rows. Each file is in order but for 3 ms. Returns the times of all rows, sorted."""
    shuffled, written = random.Random(7), list[int]()
    for place in range(files):
        times = [1000 * (files - place) + n + shuffled.randint(-1, 2) for n in range(ROWS)]
        write(directory / f"part-{place}", times)
        written += times
    return sorted(written)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("kind", FORMATS)
def test_files_whose_names_sort_against_time_make_nothing_late(kind: str, parallelism: int, tmp_path: Path) -> None:
    write, make, strategy = FORMATS[kind]
    times = write_backwards(tmp_path, write)
    source = make(str(tmp_path))
    runs = [reading(source, strategy, index, parallelism) for index in range(parallelism)]
    for running in runs:
        read(running)
    assert stamps_behind_watermarks(*runs) == times
    marks = [running.out.watermarks for running in runs]
    assert max(map(len, marks)) > 2, "event time goes on while files are read"
    assert all(earlier < later for of_one in marks for earlier, later in pairwise(of_one))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("after", [1, 2])
def test_a_restore_in_the_middle_makes_nothing_late(kind: str, after: int, tmp_path: Path) -> None:
    write, make, strategy = FORMATS[kind]
    times = write_backwards(tmp_path, write)
    source = make(str(tmp_path))
    for rows in (0, 5, 50, 90):
        first = [reading(source, strategy, index, 3) for index in range(3)]
        for place, running in enumerate(first):
            read(running, rows * place // 2)
        snapshot = restored_of([running.snapshot() for running in first])
        second = [reading(source, strategy, index, after, restored=snapshot) for index in range(after)]
        for running in second:
            read(running)
        assert len(stamps_behind_watermarks(*second)) == len(times) - len(stamps_behind_watermarks(*first))


@pytest.mark.timeout(120)
def test_files_that_overlap_hold_event_time_at_the_earliest_that_has_not_begun(tmp_path: Path) -> None:
    for place, first in enumerate((100, 0, 50)):
        as_text(tmp_path / f"{place}", [first + 3 * n for n in range(ROWS)])
    running = reading(FileSource.for_text(str(tmp_path)), BY_LINE)
    read(running)
    stamps_behind_watermarks(running)
    assert running.out.stamps()[0] == 0
    assert {46, 96} < set(running.out.watermarks)
    assert running.out.watermarks[-1] == 100 + 3 * (ROWS - 1) - 4


@pytest.mark.timeout(120)
def test_an_empty_file_holds_nothing_back_and_an_unread_one_does_whatever_the_idleness(tmp_path: Path) -> None:
    for place, times in enumerate([range(900, 950), range(0), range(100, 150)]):
        as_text(tmp_path / f"{place}", times)
    running = reading(FileSource.for_text(str(tmp_path)), BY_LINE.with_idleness(Duration.of_millis(1)))
    read(running)
    assert stamps_behind_watermarks(running) == [*range(100, 150), *range(900, 950)]
    assert running.out.watermarks[-1] == 945


class OfEach(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(event_timestamp - 4))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """It has said everything."""


@pytest.mark.timeout(120)
def test_with_a_generator_event_time_waits_for_the_last_file_to_begin(tmp_path: Path) -> None:
    write_backwards(tmp_path, as_text)
    strategy = WatermarkStrategy.for_generator(OfEach).with_timestamp_assigner(lambda line, _: int(line))
    running = reading(FileSource.for_text(str(tmp_path)), strategy)
    read(running)
    assert len(stamps_behind_watermarks(running)) == 3 * ROWS
    assert min(running.out.watermarks) >= 1000 - 4


@pytest.mark.timeout(120)
def test_without_watermarks_nothing_is_read_ahead_and_files_come_by_name(tmp_path: Path) -> None:
    write_backwards(tmp_path, as_text)
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda line, _: int(line))
    running = reading(FileSource.for_text(str(tmp_path)), strategy)
    read(running)
    stamps = [stamp for stamp in running.out.stamps() if stamp is not None]
    assert [stamp // 1000 for stamp in stamps] == sorted((stamp // 1000 for stamp in stamps), reverse=True)
    assert running.out.watermarks == []


@pytest.mark.timeout(120)
def test_files_found_by_one_look_at_a_watched_directory_make_each_other_not_late(tmp_path: Path) -> None:
    write_backwards(tmp_path, as_text)
    running = reading(FileSource.for_text(str(tmp_path)).monitor_continuously(5), BY_LINE)
    read(running, 3 * ROWS)
    arriving = tmp_path.parent / f"{tmp_path.name}-arriving"
    arriving.mkdir()
    for place, first in enumerate((9000, 8000)):
        as_text(arriving / f"late-{place}", [first + n for n in range(ROWS)])
    arriving.rename(tmp_path / "more")
    read(running, 2 * ROWS)
    assert len(stamps_behind_watermarks(running)) == 5 * ROWS
    running.operator.close()


@pytest.mark.timeout(120)
def test_ranges_of_one_subtask_are_read_in_the_order_of_their_first_rows() -> None:
    source = NumberSequenceSource(1, 3000)
    backwards = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    splits = source.list_splits(3)
    running = reading(source, backwards, splits=splits)
    while isinstance(running.operator, SourceOperator) and running.operator.poll_next(100):
        running.timers.advance_to(running.clock.ms + 200)
    assert stamps_behind_watermarks(running) == list(range(1, 3001))
    assert len(running.out.watermarks) > 20
