"""Generated rows: ranges, lengths and refusals are those of rows that Flink 2.3.0 generated with the same options."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import parse_type
from tidegate.table.datagen import GeneratedRows, typed_options

_DECIMALS: dict[tuple[int, int, str | None, str | None], tuple[str, str]] = {
    (32, 2, None, None): ("0", "1e30"),
    (6, 2, None, None): ("0", "9999.99"),
    (6, 2, "0", "100"): ("0", "100"),
    (5, 0, None, None): ("0", "99999"),
    (3, 3, None, None): ("0", "0.999"),
    (4, 1, "-5.5", "100000"): ("-5.5", "999.9"),
    (20, 5, "-3", "-2.5"): ("-3", "-2.5"),
}


@pytest.mark.parametrize("case", list(_DECIMALS))
def test_decimals_lie_between_their_bounds_and_what_their_type_holds(
    case: tuple[int, int, str | None, str | None],
) -> None:
    precision, scale, low, high = case
    options = {"connector": "datagen", "number-of-rows": "2000"}
    options |= {f"fields.d.{key}": text for key, text in (("min", low), ("max", high)) if text is not None}
    schema = pa.schema([("d", pa.decimal128(precision, scale))])
    found = sorted(GeneratedRows.of(schema, options)(0, 2000).column(0).to_pylist())
    first, last = map(Decimal, _DECIMALS[case])
    assert first <= found[0]
    assert found[-1] <= last
    assert found[-1] - found[0] > (last - first) * Decimal("0.99"), "spread over the whole range"


def rows(columns: str, count: int = 200, **options: str) -> list[dict[str, Any]]:
    """``options``: of fields, with ``__`` for a dot and ``_`` for a hyphen."""
    row_type = parse_type(f"ROW<{columns}>")
    named = {f"fields.{key.replace('__', '.').replace('_', '-')}": text for key, text in options.items()}
    made = typed_options(row_type, {"connector": "datagen", **named})
    found: list[dict[str, Any]] = GeneratedRows.of(arrow_schema(row_type), made)(7, count).to_pylist()
    return found


def test_nested_columns_have_options_by_their_paths() -> None:
    found = rows(
        "`a` ARRAY<INT>, `m` MAP<STRING, INT>, `s` MULTISET<STRING>, `r` ROW<`x` INT, `y` ROW<`z` STRING>>",
        a__element__min="1", a__element__max="3", m__key__length="2", m__value__min="5", m__value__max="9", s__element__length="1", s__length="4",
        r__x__min="1", r__x__max="2", r__y__z__length="3",
    )  # fmt: skip
    assert {len(row["a"]) for row in found} == {3}
    assert {element for row in found for element in row["a"]} == {1, 2, 3}
    assert {len(key) for row in found for key, _ in row["m"]} == {2}
    assert {value for row in found for _, value in row["m"]} == {5, 6, 7, 8, 9}
    assert all(len(dict(row[name])) == len(row[name]) for row in found for name in "ms"), "a key is there once"
    assert {len(row["s"]) for row in found} <= {2, 3, 4}
    assert {value for row in found for _, value in row["s"]} == set(range(11))
    assert {row["r"]["x"] for row in found} == {1, 2}
    assert {len(row["r"]["y"]["z"]) for row in found} == {3}


def test_some_values_are_null() -> None:
    columns = {
        "i": "INT", "b": "STRING", "a": "ARRAY<INT>", "o": "BOOLEAN", "t": "TIMESTAMP(3)", "d": "DECIMAL(5, 2)", "m": "MAP<INT, INT>", "r": "ROW<`x` INT>"
    }  # fmt: skip
    found = rows(
        ", ".join(f"`{name}` {type}" for name, type in columns.items()),
        1000,
        **{f"{name}__null_rate": "0.5" for name in columns},
    )
    for name in columns:
        assert 400 < sum(row[name] is None for row in found) < 600, name
    assert {row["b"] for row in rows("`b` STRING", b__null_rate="2")} == {None}


def test_lengths_are_those_of_types_and_vary_below_them() -> None:
    found = rows(
        "`c` CHAR(4), `v` VARCHAR(7), `b` BYTES, `z` BINARY(3), `s` STRING, `w` VARCHAR(7)",
        s__length="5",
        w__var_len="true",
        b__length="9",
    )
    assert {tuple(len(row[name]) for name in "cvbzs") for row in found} == {(4, 7, 9, 3, 5)}
    assert {len(row["w"]) for row in found} == {1, 2, 3, 4, 5, 6}, "less than the length, as in Flink"


def test_dates_and_times_are_of_now_and_timestamps_as_old_as_they_may_be() -> None:
    before = datetime.datetime.now().astimezone()
    found = rows("`d` DATE, `t` TIME, `x` TIMESTAMP(3)", x__max_past="1 h")
    assert {row["d"] for row in found} <= {before.date(), datetime.datetime.now().astimezone().date()}
    times = [row["x"] for row in found]
    assert datetime.timedelta(minutes=50) < max(times) - min(times) < datetime.timedelta(hours=1)


def test_numbers_without_bounds_are_of_the_whole_range() -> None:
    found = rows("`d` DOUBLE, `f` FLOAT")
    assert max(row["d"] for row in found) > 1e308
    assert 3e38 < max(row["f"] for row in found) < 3.5e38


@pytest.mark.parametrize(
    ("column", "option", "message"),
    [
        ("`c` CHAR(4)", {"c__length": "9"}, "Custom length for fixed-length type"),
        ("`v` VARCHAR(4)", {"v__length": "9"}, "Custom length '9' for variable-length type"),
        ("`i` INT", {"i__var_len": "true"}, "Only supports specifying 'fields.i.var-len' option"),
        ("`i` INT", {"i__max_past": "1 h"}, "Unsupported options found for 'datagen'"),
        ("`a` ARRAY<INT>", {"a__min": "1"}, "fields.a.min"),
        ("`r` ROW<`x` INT>", {"r__min": "1"}, "fields.r.min"),
        ("`d` DATE", {"d__null_rate": "0.5"}, "fields.d.null-rate"),
        (
            "`i` INT",
            {"i__kind": "sequence", "i__start": "1", "i__end": "3", "i__null_rate": "0.5"},
            "fields.i.null-rate",
        ),
    ],
)
def test_options_that_a_type_does_not_have_are_refused(column: str, option: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidJob, match=re.escape(message)):
        rows(column, 1, **option)


def test_types_without_random_values_are_refused() -> None:
    with pytest.raises(InvalidJob, match="datagen cannot make values of type duration"):
        GeneratedRows.of(pa.schema([("day", pa.duration("ms"))]), {"connector": "datagen"})
