"""Types of columns with values, and what becomes of them on their way into a file and back.

python -m tests.contract.formats.file_types     records it anew, in file_types.json
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

from tests.conformance.postgres_types import WRITTEN
from tests.unit.tidegate.connectors.test_file_source import CONTEXT, states
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.encoders import (
    CheckedEncoder,
    CsvEncoderFactory,
    EncoderFactory,
    JsonLinesEncoderFactory,
    OrcEncoderFactory,
    ParquetEncoderFactory,
)
from tidegate.model.errors import InvalidJob, SchemaMismatch
from tidegate.records.batch import ArrowBatch

RECORDED = Path(__file__).with_name("file_types.json")
SAME, REFUSED = "same", "refused"
_MORE: tuple[tuple[pa.DataType, tuple[Any, ...]], ...] = (
    (pa.uint8(), (0, 255)),
    (pa.int16(), (-(2**15), 2**15 - 1)),
    (pa.uint32(), (2**32 - 1,)),
    (pa.large_binary(), (b"a\x00\xff",)),
    (pa.date64(), (1_711_843_200_000,)),
    (pa.time32("ms"), (3_600_123,)),
    (pa.time64("ns"), (3_600_123_456_789,)),
    (pa.timestamp("ms"), (1_711_846_800_123,)),
    (pa.list_(pa.int64()), ([], [1, None], None)),
    (pa.struct([("x", pa.int64()), ("y", pa.string())]), ({"x": 1, "y": None}, None)),
    (pa.map_(pa.string(), pa.int64()), ([("a", 1)], [], None)),
)
_OLDEST_US, _NEWEST_US = -62_135_596_800_000_000, 253_402_300_800_000_000
KINDS: dict[str, pa.Array] = {}
"""By the text of the type; each with a null. Times are within the years 1 to 9999."""
for _kind, _values in (*((one.kind, tuple(value for value, _ in one.values)) for one in WRITTEN), *_MORE):
    if pa.types.is_timestamp(_kind) or pa.types.is_date32(_kind):
        _unit = 1 if not pa.types.is_timestamp(_kind) or _kind.unit != "us" else None
        _values = tuple(v for v in _values if (_OLDEST_US <= v < _NEWEST_US if _unit is None else v >= -719_162))
        _values = tuple(v for v in _values if not (pa.types.is_date32(_kind) and v >= 2_932_897))
    if pa.types.is_decimal(_kind):
        _made = pa.array(list(_values), pa.string()).cast(_kind)
    elif isinstance(_kind, pa.BaseExtensionType):
        _made = pa.ExtensionArray.from_storage(_kind, pa.array(list(_values), _kind.storage_type))
    else:
        _made = pa.array(list(_values), _kind)
    KINDS[str(_kind)] = pa.concat_arrays([_made, pa.nulls(1, _kind)])

Read = Callable[[str, pa.Schema], pa.Table]


def _by(make: Callable[..., FileSource]) -> Read:
    def read(path: str, schema: pa.Schema) -> pa.Table:
        source = make(path, schema=schema)
        reader = source.make_reader(CONTEXT)
        reader.open(states(source))
        batches: list[pa.RecordBatch] = []
        try:
            while not reader.is_finished():
                polled = reader.poll()
                if polled is not None:
                    assert isinstance(polled.batch, ArrowBatch)
                    batches.append(polled.batch.data)
                    reader.advance(len(polled.batch))
        finally:
            reader.close()
        return pa.Table.from_batches(batches, schema)

    return read


FORMATS: dict[str, tuple[EncoderFactory, Read]] = {
    "CSV": (CsvEncoderFactory(), _by(FileSource.for_csv)),
    "JSON lines": (JsonLinesEncoderFactory(), _by(FileSource.for_json_lines)),
    "Parquet": (ParquetEncoderFactory(), _by(FileSource.for_parquet)),
    "ORC": (OrcEncoderFactory(), lambda path, schema: orc.read_table(path)),
}
"""Name -> how it is written, and how it is read; ORC by Arrow, since there is no source of it here."""


def way(name: str, kind: str, directory: Path) -> str:
    """``SAME``, ``REFUSED``, or what else comes back."""
    factory, read = FORMATS[name]
    values = KINDS[kind]
    batch = pa.record_batch([pa.array(range(len(values))), values], names=["n", "v"])
    path = directory / f"part{factory.suffix}"
    try:
        with pa.OSFile(str(path), "wb") as file:
            encoder = CheckedEncoder(factory, file, batch.schema, str(path))
            encoder.write(batch)
            encoder.finish()
        found = read(str(path), batch.schema).column("v").combine_chunks()
    except (InvalidJob, SchemaMismatch):
        return REFUSED
    if found.type != values.type:
        return f"as {found.type}"
    return SAME if found.equals(values) or _texts(found) == _texts(values) else f"others: {found.to_pylist()!r}"


def _texts(values: pa.Array) -> list[str]:
    """NaN is NaN."""
    return [str(value) for value in values]


def record() -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        return {name: {kind: way(name, kind, Path(directory)) for kind in KINDS} for name in FORMATS}


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(record(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
