"""What our CSV sink writes, our CSV source reads: values, nulls and empty strings."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files.encoders import CsvEncoderFactory
from tidegate.model.errors import SchemaMismatch

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("whole", pa.int64()),
        ("float", pa.float64()),
        ("yes", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us")),
        ("utc", pa.timestamp("ms", "UTC")),
        ("money", pa.decimal128(12, 2)),
        ("clock", pa.time64("us")),
    ]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5) | st.sampled_from(
    ["", "NA", "null", ",", '"', '""', "\n", "\r\n", "\r", " ", "\ufeff", "1", "true"]
)
MOMENTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
ROWS = st.fixed_dictionaries(
    {
        "text": st.none() | TEXT,
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "float": st.none() | st.floats(),
        "yes": st.none() | st.booleans(),
        "day": st.none() | st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1)),
        "moment": st.none() | MOMENTS,
        "utc": st.none()
        | MOMENTS.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000, tzinfo=datetime.UTC)),
        "money": st.none() | st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-2)),
        "clock": st.none() | st.times(),
    }
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(ROWS, min_size=1, max_size=8),
    names=st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=9, unique=True),
    has_header=st.booleans(),
    delimiter=st.sampled_from(",;|\t"),
    range_bytes=st.integers(1, 100),
)
def test_what_is_written_is_read(
    tmp_path: Path, rows: list[dict[str, Any]], names: list[str], has_header: bool, delimiter: str, range_bytes: int
) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in names])
    data = pa.RecordBatch.from_pylist(rows, SCHEMA).select(names)
    path = tmp_path / "part.csv"
    with pa.OSFile(str(path), "wb") as file:
        encoder = CsvEncoderFactory(header=has_header, delimiter=delimiter).open(file, schema)
        encoder.write(data)
        encoder.finish()
    source = FileSource.for_csv(
        str(path), schema=schema, header=has_header, delimiter=delimiter, range_bytes=range_bytes
    )
    assert repr(drain(source, states(source))[0]) == repr(data.to_pylist())


def test_a_type_that_csv_cannot_hold_is_named(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("l", pa.list_(pa.int64()))])
    with pa.OSFile(str(tmp_path / "part.csv"), "wb") as file, pytest.raises(SchemaMismatch, match=r"column 'l' \(list"):
        CsvEncoderFactory().open(file, schema)
