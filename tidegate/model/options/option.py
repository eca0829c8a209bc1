"""Configuration options: key, type, default, bounds, and whether an option has an effect here.

A declaration is the only place that knows an option: parsing, checks, the reference page and `--help` follow from it. Defaults
are written as texts and read by the option's own type, so the documented default is the real one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from tidegate.model.units import format_duration_ms, format_size_bytes, parse_duration_ms, parse_size_bytes

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


class Kind(Enum):
    """The kinds of options: whether setting an option has an effect. Keys that are neither declared here nor known to Flink are refused."""

    EFFECTIVE = "effective"
    WITHOUT_EFFECT = "without effect"
    """An option of Flink that is parsed and checked but not used yet: it logs one warning."""


PORT_MAX = 65_535
"""The highest port of TCP."""


@dataclass(frozen=True)
class ValueType(Generic[T]):
    """How values of one type are parsed from text and formatted: `parse(format(value)) == value`.

    `parse` raises `ValueError` with a message that names what was expected. `unit` is that of the parsed number, if any.
    """

    name: str
    parse: Callable[[str], T]
    format: Callable[[T], str]
    unit: str = ""


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A declared option. `default`: a parsed value; `None` when the option is not set by default.

    `minimum` and `maximum` are inclusive and in the type's unit; `except_for` are values outside them that are allowed (such as
    -1 for "derive it"). `fallback_keys` are Flink's old names, looked at in order when `key` is absent. `deviation` says why
    the default is not Flink's; empty when it is.
    """

    key: str
    type: ValueType[Any]
    default: T
    doc: str
    kind: Kind = Kind.EFFECTIVE
    minimum: float | None = None
    maximum: float | None = None
    except_for: tuple[float, ...] = ()
    fallback_keys: tuple[str, ...] = ()
    deviation: str = ""

    @property
    def unit(self) -> str:
        """Returns the unit of the value that `Configuration.get` returns: `ms`, `bytes`, or nothing."""
        return self.type.unit

    def parse(self, text: str) -> T:
        """Parses a text. Raises `ValueError` for an invalid text and for a value out of bounds."""
        value = self.type.parse(text)
        if isinstance(value, int | float) and not isinstance(value, bool) and value not in self.except_for:
            if self.minimum is not None and value < self.minimum:
                raise ValueError(f"{text!r} is below the least allowed value, {self.show(self.minimum)}")
            if self.maximum is not None and value > self.maximum:
                raise ValueError(f"{text!r} is above the greatest allowed value, {self.show(self.maximum)}")
        return value  # type: ignore[no-any-return]

    def format(self, value: T) -> str:
        """Formats a value so that `parse` reads it back; empty for an option that is not set."""
        return "" if value is None else self.type.format(value)

    def show(self, bound: float) -> str:
        """Formats a bound as a user would write it."""
        return self.type.format(bound if self.type is FLOAT else int(bound))


DeclaredOption: TypeAlias = ConfigOption[Any]
"""An option whose value may have any type."""


def option(
    key: str,
    type: ValueType[T],
    default: str,
    doc: str,
    *fallback_keys: str,
    minimum: float | None = None,
    maximum: float | None = None,
    except_for: tuple[float, ...] = (),
    kind: Kind = Kind.EFFECTIVE,
    deviation: str = "",
) -> ConfigOption[T]:
    """Declares an option that always has a value; `default` is written as a user would write it."""
    made: ConfigOption[T] = ConfigOption(
        key, type, type.parse(default), doc, kind, minimum, maximum, except_for, fallback_keys, deviation
    )
    made.parse(default)
    return made


def optional(
    key: str,
    type: ValueType[T],
    doc: str,
    *fallback_keys: str,
    minimum: float | None = None,
    maximum: float | None = None,
    kind: Kind = Kind.EFFECTIVE,
) -> ConfigOption[T | None]:
    """Declares an option that is not set by default."""
    return ConfigOption(key, type, None, doc, kind, minimum, maximum, (), fallback_keys)


def choice(enumeration: type[E], **also: E) -> ValueType[E]:
    """Returns the type of an enumeration's values, in any case and with `-` equal to `_`; `also` are Flink's other spellings."""
    spellings = {_fold(member.value): member for member in enumeration} | {_fold(text): m for text, m in also.items()}

    def parse(text: str) -> E:
        found = spellings.get(_fold(text.strip()))
        if found is None:
            raise ValueError(f"{text!r} is not one of {', '.join(str(member.value) for member in enumeration)}")
        return found

    return ValueType("enum: " + ", ".join(str(member.value) for member in enumeration), parse, lambda m: str(m.value))


def _fold(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "")


def _parse_int(text: str) -> int:
    if re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) is None:
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _parse_float(text: str) -> float:
    if re.fullmatch(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*", text) is None:
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _parse_bool(text: str) -> bool:
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is neither 'true' nor 'false'")
    return found


def _parse_list(text: str) -> tuple[str, ...]:
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    return tuple(item.strip().strip("'\"") for item in re.split(r"[;,|]", inner) if item.strip())


def _parse_ports(text: str) -> range:
    found = re.fullmatch(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last <= PORT_MAX or (first == 0 and last > 0):
        raise ValueError(f"{text!r} is neither a port nor a range of ports such as 50100-50200")
    return range(first, last + 1)


def _format_ports(ports: range) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]}-{ports[-1]}"


DURATION: ValueType[int] = ValueType("duration", parse_duration_ms, format_duration_ms, "ms")
MEMORY_SIZE: ValueType[int] = ValueType("memory size", parse_size_bytes, format_size_bytes, "bytes")
INT: ValueType[int] = ValueType("int", _parse_int, str)
FLOAT: ValueType[float] = ValueType("float", _parse_float, repr)
BOOL: ValueType[bool] = ValueType("bool", _parse_bool, lambda value: "true" if value else "false")
STRING: ValueType[str] = ValueType("string", str, str)
PORTS: ValueType[range] = ValueType("port or range of ports", _parse_ports, _format_ports)
LIST: ValueType[tuple[str, ...]] = ValueType("list", _parse_list, ";".join)
