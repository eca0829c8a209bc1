"""The registry of scalar functions: for each name in a plan, how it is computed and the builder of its kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tidegate.functions.sql.scalar.arrow_types import arrow_type
from tidegate.functions.sql.scalar.context import EvaluationContext
from tidegate.plan.errors import UnsupportedPlan
from tidegate.plan.logical_types import LogicalType

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A column, or one value for all rows."""
Evaluate: TypeAlias = Callable[["Rows"], Datum]


class KernelKind(Enum):
    """How a function is computed, from the fastest to the slowest."""

    ARROW = "Arrow kernels"
    NUMPY = "numpy, over columns of numbers"
    DISTINCT = "Python, once for each distinct value"
    VALUES = "Python, for each row"


class Rows:
    """The rows of a batch, or some of them, with results computed on them."""

    __slots__ = ("_columns", "_indices", "_parent", "computed", "count", "now_ms")

    def __init__(self, columns: Sequence[pa.Array], count: int, now_ms: Callable[[], int]) -> None:
        self.count: Final = count
        self.computed: Final[dict[int, Datum]] = {}
        self.now_ms: Final = now_ms
        self._columns: list[pa.Array | None] = list(columns)
        self._parent: Rows | None = None
        self._indices: pa.Array | None = None

    def column(self, index: int) -> pa.Array:
        """Returns a column of the input."""
        column = self._columns[index]
        if column is None:
            assert self._parent is not None
            column = self._columns[index] = self._parent.column(index).take(self._indices)
        return column

    def take(self, indices: pa.Array) -> Rows:
        """Returns the rows at ``indices``; columns are copied when they are used."""
        taken = Rows([], len(indices), self.now_ms)
        taken._columns = [None] * len(self._columns)
        taken._parent, taken._indices = self, indices
        return taken


@dataclass(frozen=True)
class Operand:
    """A compiled expression. ``literal``: the Python value of a constant; ``is_literal`` distinguishes null from no constant. ``may_fail``: whether
    evaluation raises for some values; such an operand is evaluated only for the rows that need it, as in CASE. ``function``: the name of the called
    function, empty for other expressions."""

    type: LogicalType
    evaluate: Evaluate
    is_literal: bool = False
    literal: Any = None
    may_fail: bool = False
    function: str = ""

    @property
    def arrow(self) -> pa.DataType:
        """Returns the Arrow type of its values."""
        return arrow_type(self.type)

    def values(self, rows: Rows) -> pa.Array:
        """Returns the values of all rows as an array."""
        return as_array(self.evaluate(rows), rows.count)


@dataclass(frozen=True)
class ScalarCall:
    """A function call for which a kernel is built."""

    name: str
    type: LogicalType
    operands: tuple[Operand, ...]
    context: EvaluationContext

    @property
    def arrow(self) -> pa.DataType:
        """Returns the Arrow type of its values."""
        return arrow_type(self.type)

    def refuse(self, why: str = "") -> UnsupportedPlan:
        """Returns the error for a call whose types have no kernel."""
        types = ", ".join(str(operand.type) for operand in self.operands)
        return UnsupportedPlan(f"the function {self.name}({types}) is not supported" + (f": {why}" if why else ""))

    def literal(self, index: int) -> Any:
        """Returns the constant operand at ``index``. Raises ``UnsupportedPlan`` if it is not constant."""
        operand = self.operands[index]
        if not operand.is_literal:
            raise self.refuse(f"its argument {index + 1} must be a constant")
        return operand.literal


Builder: TypeAlias = Callable[[ScalarCall], Evaluate]


@dataclass(frozen=True)
class ScalarFunction:
    """A registered function; ``may_fail`` as in ``Operand``."""

    name: str
    kind: KernelKind
    build: Builder = field(repr=False)
    may_fail: bool = False


FUNCTIONS: Final[dict[str, ScalarFunction]] = {}
"""Functions by their internal name in plans, such as ``$UPPER$1``."""


def function(*names: str, kind: KernelKind = KernelKind.ARROW, may_fail: bool = False) -> Callable[[Builder], Builder]:
    """Registers a builder under names without Flink's dollars and version: ``UPPER`` for ``$UPPER$1``."""

    def register(build: Builder) -> Builder:
        for name in names:
            internal = f"${name}$1"
            assert internal not in FUNCTIONS, name
            FUNCTIONS[internal] = ScalarFunction(internal, kind, build, may_fail)
        return build

    return register


def as_array(datum: Datum, count: int) -> pa.Array:
    """Returns an array of ``count`` values."""
    if isinstance(datum, pa.Array):
        return datum
    if isinstance(datum, pa.ChunkedArray):
        return datum.combine_chunks()
    if isinstance(datum, pa.Scalar):
        if not count:
            return pa.array([], datum.type)
        return pa.repeat(datum, count) if datum.is_valid else pa.nulls(count, datum.type)
    raise AssertionError(type(datum))
