"""The formats of changes in JSON read and write as Flink 2.3 does (``changelogs.jsonl``, by ``record_changelogs.py``)."""

from __future__ import annotations

import pickle
from collections import defaultdict
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.table_formats.values import as_held, batch_of, recorded, row_type, values_of
from tidegate.connectors.formats.messages import PoisonRecord
from tidegate.functions.sql.changelog import with_kinds
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot, parse_type
from tidegate.table._formats.changelog_json import DIALECTS, ChangelogReading, ChangelogWriting
from tidegate.table._formats.formats import make_reading, make_writing

KINDS = ["+I", "-U", "+U", "-D"]


def options_of(case: dict[str, Any]) -> dict[str, str]:
    return {f"{case['format']}.{key}": text for key, text in case["options"].items()}


def reading(case: dict[str, Any]) -> ChangelogReading:
    return _reading(case["format"], tuple(options_of(case).items()), case["type"], tuple(case["metadata"]))


@cache
def _reading(name: str, options: tuple[tuple[str, str], ...], type: str, metadata: tuple[str, ...]) -> ChangelogReading:
    made = make_reading(name, dict(options), row_type(type), metadata)
    assert isinstance(made, ChangelogReading)
    return made


def whole_type(case: dict[str, Any]) -> LogicalType:
    known = DIALECTS[case["format"]].metadata
    more = tuple(Field(key, parse_type(known[key].type)) for key in case["metadata"])
    return LogicalType(TypeRoot.ROW, fields=(*row_type(case["type"]).fields, *more))


def rows_of(batch: pa.RecordBatch, type: LogicalType) -> list[Any]:
    kinds = [KINDS[kind] for kind in batch.columns[-1].to_pylist()]
    rows = values_of(batch.select(range(batch.num_columns - 1)), type)
    return [list(pair) for pair in zip(kinds, rows, strict=True)]


def message(case: dict[str, Any]) -> bytes | None:
    return None if case["text"] is None else case["text"].encode()


def by_kind() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for case in recorded("changelogs", "reads"):
        found[f"{case['format']} {case['type']} {'with metadata' if case['metadata'] else ''}"].append(case)
    return found


CASES = by_kind()


@pytest.mark.parametrize("kind", CASES)
def test_a_message_is_read_as_flink_reads_it(kind: str) -> None:
    for case in CASES[kind]:
        given = pa.array([message(case)], pa.binary())
        if "error" in case:
            with pytest.raises(PoisonRecord):
                reading(case).read(given)
            continue
        batch, counts = reading(case).read(given)
        type = whole_type(case)
        assert rows_of(batch, type) == [[kind, as_held(row, type)] for kind, row in case["rows"]], case
        assert counts is not None
        assert counts.tolist() == [batch.num_rows]


@pytest.mark.parametrize("kind", CASES)
def test_messages_are_read_at_once_as_one_by_one(kind: str) -> None:
    by_options = defaultdict(list)
    for case in CASES[kind]:
        if "rows" in case:
            by_options[str(case["options"])].append(case)
    for cases in by_options.values():
        made = pickle.loads(pickle.dumps(reading(cases[0])))
        batch, counts = made.read(pa.array(list(map(message, cases)), pa.binary()))
        type = whole_type(cases[0])
        assert rows_of(batch, type) == [[kind, as_held(row, type)] for case in cases for kind, row in case["rows"]]
        assert counts is not None
        assert counts.tolist() == [len(case["rows"]) for case in cases]


def test_plain_changes_are_read_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChangelogReading, "_rows", None)
    type = row_type("ROW<f BIGINT, g STRING>")
    made = ChangelogReading(type, "debezium-json")
    texts = [
        b'{"before": null, "after": {"f": 1, "g": "a"}, "op": "c", "source": {"x": 1}}',
        None,
        b'{"before": {"f": 1, "g": "a"}, "after": {"f": 2}, "op": "u"}',
        b'{"before": {"f": 2, "g": "b"}, "after": null, "op": "d"}',
    ]
    batch, counts = made.read(pa.array(texts, pa.binary()))
    assert batch.to_pylist() == [
        {"f": 1, "g": "a", "$row_kind": 0},
        {"f": 1, "g": "a", "$row_kind": 1},
        {"f": 2, "g": None, "$row_kind": 2},
        {"f": 2, "g": "b", "$row_kind": 3},
    ]
    assert counts is not None
    assert counts.tolist() == [1, 0, 2, 1]


def test_what_is_wrong_is_said_with_the_message_and_its_place() -> None:
    made = ChangelogReading(row_type("ROW<f INT, g STRING>"), "debezium-json")
    good = b'{"before": null, "after": {"f": 1}, "op": "c"}'
    with pytest.raises(PoisonRecord, match="Corrupt Debezium JSON message .*REPLICA IDENTITY to FULL") as told:
        made.read(pa.array([good, b'{"before": null, "after": {"f": 1}, "op": "u"}'], pa.binary()))
    assert told.value.index == 1


def test_rows_are_written_as_flink_writes_them() -> None:
    cases = list(recorded("changelogs", "writes"))
    assert len(cases) == 144
    for case in cases:
        made = make_writing(case["format"], options_of(case), row_type(case["type"]))
        assert isinstance(made, ChangelogWriting)
        row = batch_of(case["row"], row_type(case["type"]))
        kind = pa.array([KINDS.index(case["kind"])], pa.int8())
        batch = pa.RecordBatch.from_arrays([*row.columns, kind], schema=with_kinds(row.schema))
        assert made.texts(batch) == [case["text"]], case
