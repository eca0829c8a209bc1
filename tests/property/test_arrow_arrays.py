"""Columns that are made without pandas are those that Arrow makes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.values import FieldValue
from tidegate.records.arrow_arrays import arrow_array

COLUMNS = st.one_of(
    st.lists(st.integers(-(2**66), 2**66)),
    st.lists(st.floats()),
    st.lists(st.text(st.characters())),
    st.lists(st.binary()),
    st.lists(st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(), st.text(), st.binary()), max_size=3),
)
TYPES = st.sampled_from([None, pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.binary()])


def outcome(values: Sequence[FieldValue], kind: pa.DataType | None, *, plain: bool) -> tuple[str, pa.DataType | None]:
    """Values as text, so that NaN equals itself, and their type; or the error."""
    try:
        made = arrow_array(values, kind) if plain else pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        return f"{type(error).__name__}: {error}", None
    made.validate(full=True)
    return repr(made.to_pylist()), made.type


@given(COLUMNS, TYPES)
def test_a_column_is_as_arrow_makes_it(values: list[FieldValue], kind: pa.DataType | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "pandas", raising=False)
        plain = outcome(values, kind, plain=True)
    assert plain == outcome(values, kind, plain=False)


@pytest.mark.parametrize(
    "values", ["[1, 2]", "list(range(10_000))", "['text'] * 10_000", "[0.5, 1.5]", "['a', '']", "[b'a', b'']"]
)
def test_a_plain_column_needs_no_pandas(values: str) -> None:
    program = f"""
import sys
from tidegate.records.arrow_arrays import arrow_array
assert arrow_array({values}).to_pylist() == {values}
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
