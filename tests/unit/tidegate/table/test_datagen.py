"""Generated rows: their ranges are those of 2,000 rows that Flink 2.3.0 generated with the same options."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.model.errors import InvalidJob
from tidegate.table.datagen import GeneratedRows

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


def test_types_without_random_values_are_refused() -> None:
    with pytest.raises(InvalidJob, match="datagen makes no values of type date32"):
        GeneratedRows.of(pa.schema([("day", pa.date32())]), {"connector": "datagen"})
