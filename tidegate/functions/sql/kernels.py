"""Arrow kernels with DuckDB's semantics, over ``pyarrow.compute``.

Law: a kernel gives DuckDB's value or raises ``pa.ArrowInvalid``; it never gives another one. Where kernels stop (an integer that
overflows, a text beyond ASCII), DuckDB computes the batch (``Exact``), and it decides whether there is a value or an error.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.expressions import Call, Datum, Expression
from tidegate.functions.sql.duckdb_values import DuckDbValues


class Kernel(Expression):
    """Calls one of the kernels below on other expressions."""

    def __init__(self, function: Callable[..., Datum], *arguments: Expression) -> None:
        self._function = function
        self._arguments = arguments

    @property
    def name(self) -> str:
        return repr(self)

    def columns(self) -> list[str]:
        return [name for argument in self._arguments for name in argument.columns()]

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        return self._function(*[argument._evaluate(batch) for argument in self._arguments])

    def __repr__(self) -> str:
        return f"{self._function.__name__}({', '.join(map(repr, self._arguments))})"


class Exact(Expression):
    """Evaluates by kernels, and by DuckDB for batches in which they fail."""

    def __init__(self, kernels: Expression, duckdb: DuckDbValues) -> None:
        self._kernels = kernels
        self._duckdb = duckdb

    @property
    def name(self) -> str:
        return self._kernels.name

    def columns(self) -> list[str]:
        return self._kernels.columns()

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        try:
            return self._kernels._evaluate(batch)
        except pa.ArrowInvalid:
            (values,) = self._duckdb(batch)
            return values

    def __repr__(self) -> str:
        return repr(self._kernels)


def cast_to(expression: Expression, kind: pa.DataType) -> Expression:
    """Casts an expression: integers keep their value or the kernel fails; as floats they are rounded to the nearest."""
    return Call("cast", [expression], {"target_type": kind, "safe": not pa.types.is_floating(kind)})


# --- comparisons: NaN equals itself and is greater than any other number


def equal(left: Datum, right: Datum) -> Datum:
    """Tests for equality; NaN equals NaN."""
    same = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return same
    return pc.or_kleene(same, pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))


def not_equal(left: Datum, right: Datum) -> Datum:
    """Negates ``equal``."""
    return pc.invert(equal(left, right))


def greater(left: Datum, right: Datum) -> Datum:
    """Tests for order; NaN is greater than any other number."""
    larger = pc.greater(left, right)
    if not pa.types.is_floating(left.type):
        return larger
    return pc.or_kleene(larger, pc.and_kleene(pc.is_nan(left), pc.invert(pc.is_nan(right))))


def less(left: Datum, right: Datum) -> Datum:
    """Tests ``greater`` with the sides swapped."""
    return greater(right, left)


def greater_equal(left: Datum, right: Datum) -> Datum:
    """Negates ``less``."""
    return pc.invert(greater(right, left))


def less_equal(left: Datum, right: Datum) -> Datum:
    """Negates ``greater``."""
    return pc.invert(greater(left, right))


def above(left: Datum, number: Datum) -> Datum:
    """Tests ``greater`` than a number that is not NaN."""
    return pc.invert(pc.less_equal(left, number))


def at_least(left: Datum, number: Datum) -> Datum:
    """Tests ``greater_equal`` to a number that is not NaN."""
    return pc.invert(pc.less(left, number))


# --- integers


def modulo(left: Datum, right: Datum) -> Datum:
    """Returns the remainder, with the sign of ``left``."""
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, right), right))


def quotient(left: Datum, right: Datum) -> Datum:
    """Returns the integer quotient, rounded toward zero."""
    return pc.divide_checked(left, right)


# --- texts


def upper(text: Datum) -> Datum:
    """Converts ASCII texts to upper case; fails for others."""
    return pc.ascii_upper(_ascii(text))


def lower(text: Datum) -> Datum:
    """Converts ASCII texts to lower case; fails for others."""
    return pc.ascii_lower(_ascii(text))


def joined(left: Datum, right: Datum) -> Datum:
    """Concatenates two texts; null when one of them is."""
    return pc.binary_join_element_wise(left, right, "")


def _ascii(text: Datum) -> Datum:
    """Fails for texts beyond ASCII, whose case conversion differs: Arrow converts a sharp s to SS, DuckDB to a capital one."""
    if pc.all(pc.string_is_ascii(text)).as_py() is False:
        raise pa.ArrowInvalid("a text beyond ASCII")
    return text
