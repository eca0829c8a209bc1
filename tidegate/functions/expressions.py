"""Column expressions for columnar streams: ``(col("price") * col("amount")).alias("total")``, ``col("state") == "CA"``.

An expression is a small tree over ``pyarrow.compute``: it pickles, tells its output field from a schema alone (the
graph is checked before anything runs), and computes one Arrow array from a record batch. Nulls go through as in SQL.

    Expression ── Column("price")
               ├─ Literal(5)
               ├─ Call("add", args)       any function of pyarrow.compute, by name
               └─ Alias(expression, "total")

Arithmetic: ``+ - *`` wrap on integer overflow, as Arrow does; ``/`` is always a fraction (float64, or decimal);
``//`` and ``%`` round down, as in Python. Values of different types: ``mixed_types``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.mixed_types import Datum, called, floor_division, fraction, modulo
from tidegate.model.errors import InvalidJob, SchemaMismatch

__all__ = ["Datum", "Expression", "call", "coalesce", "col", "if_else", "lit"]

ScalarValue: TypeAlias = (
    "bool | int | float | str | bytes | Decimal | date | time | timedelta"
    " | Sequence[ScalarValue] | Mapping[str, ScalarValue] | None"
)
"""A value that ``pyarrow.scalar`` converts to a constant."""

Operand: TypeAlias = "Expression | ScalarValue | pa.Scalar"
"""An operand of an expression: another expression, or a constant."""

_OF_ROWS = frozenset(
    {"cast", "dictionary_decode", "dictionary_encode", "run_end_decode", "run_end_encode", "utf8_zfill"}
)
"""Functions of single values that Arrow does not classify as such."""


class Expression(ABC):
    """The base class of expressions, with the operators that combine them."""

    __hash__ = None  # type: ignore[assignment]  # == builds an expression, so there is no hash

    @property
    @abstractmethod
    def name(self) -> str:
        """Returns the name of the output column unless it has an alias."""

    @abstractmethod
    def columns(self) -> list[str]:
        """Returns the names of the columns that it reads."""

    def plain_column(self) -> str | None:
        """Returns the column that it passes on unchanged, under whatever name; ``None`` when it computes something."""
        return None

    @abstractmethod
    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar: ...

    def compute(self, batch: pa.RecordBatch) -> pa.Array:
        """Evaluates the expression for each row. Raises what the Arrow kernel raises (a division of an integer by zero, say); ``SchemaMismatch`` if the
        result has not one value for each row."""
        found = self._evaluate(batch)
        if isinstance(found, pa.Scalar):
            return pa.repeat(found, batch.num_rows)
        if len(found) != batch.num_rows:
            raise SchemaMismatch(f"{self!r} gives {len(found)} values for {batch.num_rows} rows, not one for each")
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def output_field(self, schema: pa.Schema) -> pa.Field:
        """Returns the name and type of the result on rows of this schema. Raises ``SchemaMismatch`` for a missing column, and for types that the
        function does not accept."""
        for name in self.columns():
            if name not in schema.names:
                raise SchemaMismatch(f"no column {name!r} for {self!r}: the stream has {', '.join(schema.names)}")
        try:
            kind = self.compute(_row_of_nulls(schema)).type
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            types = ", ".join(f"{n}: {schema.field(n).type}" for n in dict.fromkeys(self.columns()))
            raise SchemaMismatch(f"{self!r} does not fit the columns ({types or 'none'}): {error}") from error
        return pa.field(self.name, kind)

    def alias(self, name: str) -> Expression:
        """Returns the same expression with another name for its column."""
        return Alias(self, name)

    def cast(self, kind: pa.DataType | str) -> Expression:
        """Converts values to an Arrow type, given as such or by its name (``"int64"``). Numbers become the nearest float; any other value that does
        not fit fails the job."""
        return Call("cast", [self], {"target_type": pa.type_for_alias(kind) if isinstance(kind, str) else kind})

    def __getitem__(self, name: str) -> Expression:
        """Returns a field of a nested row, or the value of a key in a map: ``col("order")["customer"]["city"]``. Null where the row or
        the map is, or where it lacks the key."""
        if not isinstance(name, str):
            raise TypeError(f"{self!r}[{name!r}]: fields and keys are named by strings")
        return Nested(self, name)

    def is_null(self) -> Expression:
        """Tests for each row whether the value is null."""
        return Call("is_null", [self])

    def is_not_null(self) -> Expression:
        """Tests for each row whether the value is not null."""
        return Call("is_valid", [self])

    def is_in(self, values: Sequence[ScalarValue]) -> Expression:
        """Tests for each row whether the value is one of ``values``; null for null."""
        found = Call("is_in", [self], {"value_set": _constants(values)})
        return if_else(self.is_null(), pa.scalar(None, pa.bool_()), found)  # null is in no set, and not out of one

    def between(self, low: Operand, high: Operand) -> Expression:
        """Tests for each row whether the value lies between two bounds, both included."""
        return Call("and_kleene", [Call("greater_equal", [self, lit(low)]), Call("less_equal", [self, lit(high)])])

    def fill_null(self, value: Operand) -> Expression:
        """Replaces nulls by a value."""
        return Call("coalesce", [self, lit(value)])

    def __add__(self, other: Operand) -> Expression:
        return Call("add", [self, lit(other)])

    def __radd__(self, other: Operand) -> Expression:
        return Call("add", [lit(other), self])

    def __sub__(self, other: Operand) -> Expression:
        return Call("subtract", [self, lit(other)])

    def __rsub__(self, other: Operand) -> Expression:
        return Call("subtract", [lit(other), self])

    def __mul__(self, other: Operand) -> Expression:
        return Call("multiply", [self, lit(other)])

    def __rmul__(self, other: Operand) -> Expression:
        return Call("multiply", [lit(other), self])

    def __truediv__(self, other: Operand) -> Expression:
        return Call("/", [self, lit(other)])

    def __rtruediv__(self, other: Operand) -> Expression:
        return Call("/", [lit(other), self])

    def __floordiv__(self, other: Operand) -> Expression:
        return Call("//", [self, lit(other)])

    def __rfloordiv__(self, other: Operand) -> Expression:
        return Call("//", [lit(other), self])

    def __mod__(self, other: Operand) -> Expression:
        return Call("%", [self, lit(other)])

    def __rmod__(self, other: Operand) -> Expression:
        return Call("%", [lit(other), self])

    def __neg__(self) -> Expression:
        return Call("negate", [self])

    def __eq__(self, other: Operand) -> Expression:  # type: ignore[override]  # builds an expression
        return Call("equal", [self, lit(other)])

    def __ne__(self, other: Operand) -> Expression:  # type: ignore[override]  # builds an expression
        return Call("not_equal", [self, lit(other)])

    def __lt__(self, other: Operand) -> Expression:
        return Call("less", [self, lit(other)])

    def __le__(self, other: Operand) -> Expression:
        return Call("less_equal", [self, lit(other)])

    def __gt__(self, other: Operand) -> Expression:
        return Call("greater", [self, lit(other)])

    def __ge__(self, other: Operand) -> Expression:
        return Call("greater_equal", [self, lit(other)])

    def __and__(self, other: Operand) -> Expression:
        return Call("and_kleene", [self, lit(other)])

    def __or__(self, other: Operand) -> Expression:
        return Call("or_kleene", [self, lit(other)])

    def __invert__(self) -> Expression:
        return Call("invert", [self])

    def __bool__(self) -> bool:
        raise InvalidJob(f"{self!r} has no truth value: write & for and, | for or, ~ for not, each side in parentheses")


class Column(Expression):
    """Refers to a column of the stream."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def columns(self) -> list[str]:
        return [self._name]

    def plain_column(self) -> str | None:
        return self._name

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column(self._name)

    def __repr__(self) -> str:
        return f"col({self._name!r})"


class Literal(Expression):
    """A constant, repeated for every row."""

    def __init__(self, value: Operand) -> None:
        self.value: pa.Scalar = value if isinstance(value, pa.Scalar) else _constants([value])[0]

    @property
    def name(self) -> str:
        return repr(self)

    def columns(self) -> list[str]:
        return []

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Scalar:
        return self.value

    def __repr__(self) -> str:
        return repr(self.value.as_py())


class Alias(Expression):
    """Renames another expression."""

    def __init__(self, expression: Expression, name: str) -> None:
        self._expression = expression
        self._name = name

    @property
    def inner(self) -> Expression:
        """Returns the renamed expression."""
        return self._expression

    @property
    def name(self) -> str:
        return self._name

    def columns(self) -> list[str]:
        return self._expression.columns()

    def plain_column(self) -> str | None:
        return self._expression.plain_column()

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        return self._expression._evaluate(batch)

    def __repr__(self) -> str:
        return f"{self._expression!r}.alias({self._name!r})"


class Call(Expression):
    """Calls a function of ``pyarrow.compute``, or one of tidegate that is named by an operator's sign."""

    def __init__(
        self, function: str, arguments: Sequence[Expression], options: Mapping[str, object] | None = None
    ) -> None:
        if function not in _OURS:
            _check_function(function)
        self.function = function
        self.arguments = list(arguments)
        self.options = dict(options or {})

    @property
    def name(self) -> str:
        return repr(self)

    def columns(self) -> list[str]:
        return [name for argument in self.arguments for name in argument.columns()]

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        arguments = [argument._evaluate(batch) for argument in self.arguments]
        ours = _OURS.get(self.function)
        if ours is not None:
            return ours(*arguments)
        return called(self.function, getattr(pc, self.function), arguments, self.options)

    def __repr__(self) -> str:
        options = [f"{name}={value}" for name, value in self.options.items() if not isinstance(value, pa.Array)]
        return f"{self.function}({', '.join([*map(repr, self.arguments), *options])})"


class Nested(Expression):
    """Reads a field of a nested row, or a key's value in a map; its column has the same name."""

    def __init__(self, inner: Expression, field: str) -> None:
        self._inner = inner
        self._field = field

    @property
    def name(self) -> str:
        return self._field

    def columns(self) -> list[str]:
        return self._inner.columns()

    def _evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        rows = self._inner._evaluate(batch)
        if pa.types.is_map(rows.type):
            return pc.map_lookup(rows, pa.scalar(self._field, rows.type.key_type), "first")
        if not pa.types.is_struct(rows.type):
            raise pa.ArrowTypeError(f"{self._inner!r} is {rows.type}, which has no fields")
        names = [rows.type.field(at).name for at in range(rows.type.num_fields)]
        if self._field not in names:
            raise pa.ArrowInvalid(f"{self._inner!r} has no field {self._field!r}; it has {', '.join(names)}")
        return pc.struct_field(rows, names.index(self._field))

    def __repr__(self) -> str:
        return f"{self._inner!r}[{self._field!r}]"


def col(name: str) -> Expression:
    """Returns a column of the stream."""
    return Column(name)


def lit(value: Operand) -> Expression:
    """Returns a constant; an expression is returned as it is."""
    return value if isinstance(value, Expression) else Literal(value)


def call(function: str, *arguments: Operand, **options: object) -> Expression:
    """Calls any function of ``pyarrow.compute`` that returns one value for each row: ``call("utf8_upper", col("name"))``. Raises ``InvalidJob`` for
    others, whose result would depend on how the stream is split into batches."""
    function = "coalesce" if function == "fill_null" else function  # which would turn 0.5 into an integer in silence
    return Call(function, [lit(argument) for argument in arguments], options)


def if_else(condition: Expression, then: Operand, otherwise: Operand) -> Expression:
    """Takes ``then`` where the condition is true and ``otherwise`` where it is false; both may be expressions or
    values."""
    return Call("if_else", [condition, lit(then), lit(otherwise)])


def coalesce(*arguments: Operand) -> Expression:
    """Returns the first argument that is not null."""
    return Call("coalesce", [lit(argument) for argument in arguments])


def _row_of_nulls(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], names=schema.names)


def _constants(values: Sequence[Operand]) -> pa.Array:
    """Converts constants to an Arrow array; whole numbers from 2**63 on are uint64. Raises ``InvalidJob`` for values without an Arrow type."""
    try:
        try:
            return pa.array(values)
        except OverflowError:
            return pa.array(values, pa.uint64())
    except (OverflowError, pa.ArrowException) as error:
        shown = ", ".join(map(repr, values))
        raise InvalidJob(
            f"{shown}: no type of columns has this value ({error}); whole numbers have 64 bits, use Decimal for larger ones"
        ) from error


def _check_function(name: str) -> None:
    """Raises ``InvalidJob`` unless the function returns one value for each row, which depends on that row alone."""
    try:
        kind = pc.get_function(name.rstrip("_")).kind if name not in _OF_ROWS else "scalar"
    except KeyError:
        kind = ""
    if not kind or not callable(getattr(pc, name, None)):
        raise InvalidJob(f"pyarrow.compute has no function {name!r}")
    if kind != "scalar" or name == "random":
        raise InvalidJob(
            f"call({name!r}): this function of pyarrow.compute does not give one value for each row from that row alone (it is of kind {kind!r}), so its "
            "result would depend on how the stream is cut into batches. Use aggregates of windows, or map_batches"
        )


_OURS = {"/": fraction, "//": floor_division, "%": modulo}
