"""The format ``json`` writes as Flink 2.3 does (``json.jsonl``, by ``record.py``)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.table_formats.values import batch_of, held, recorded, row_type
from tidegate.model.errors import InvalidJob
from tidegate.table._formats.json_writing import JsonWriting
from tidegate.table._formats.times import TimestampStandard


def writing(case: dict[str, Any]) -> JsonWriting:
    options = case["options"]
    return JsonWriting(
        row_type(case["type"]),
        TimestampStandard(options.get("timestamp-format.standard", "SQL")),
        decimals_are_plain=options.get("encode.decimal-as-plain-number") == "true",
        leaves_nulls_out=options.get("encode.ignore-null-fields") == "true",
    )


def test_rows_are_written_as_flink_writes_them() -> None:
    by_kind = defaultdict(list)
    for case in recorded("json", "writes"):
        if held(case):
            by_kind[case["type"], str(case["options"])].append(case)
    assert len(by_kind) > 40
    for (type, _), cases in by_kind.items():
        rows = [batch_of(case["row"], row_type(type)) for case in cases]
        assert writing(cases[0]).texts(pa.concat_batches(rows)) == [case["text"] for case in cases], type
        for case, row in zip(cases, rows, strict=True):
            assert writing(case).texts(row) == [case["text"]]


def test_slices_and_nulls_of_nested_columns() -> None:
    type = row_type("ROW<f ARRAY<INT>, g MAP<STRING, INT>, h ROW<x INT>>")
    rows: list[dict[str, Any]] = [
        {"f": [1], "g": [("a", 1)], "h": {"x": 1}},
        {"f": None, "g": None, "h": None},
        {"f": [2, None], "g": [("b", None), ("c", 3)], "h": {"x": None}},
    ]
    kinds = [pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()), pa.struct([("x", pa.int32())])]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([r[n] for r in rows], k) for n, k in zip("fgh", kinds, strict=True)], list("fgh")
    )
    expected = [
        '{"f":[1],"g":{"a":1},"h":{"x":1}}',
        '{"f":null,"g":null,"h":null}',
        '{"f":[2,null],"g":{"b":null,"c":3},"h":{"x":null}}',
    ]
    assert JsonWriting(type).texts(batch) == expected
    assert JsonWriting(type).texts(batch.slice(1)) == expected[1:]


def test_a_map_without_text_as_keys_is_refused() -> None:
    with pytest.raises(InvalidJob, match="doesn't support non-string as key type of map"):
        JsonWriting(row_type("ROW<f MAP<INT, INT>>")).check()
