"""Stand-ins: values of the same kind and length that replace those of records and state in a failure that is passed on.

    text    same length; letters by letters of the same case, digits by digits, everything else stays: 'Ann-7' ─▶ 'Kqe-2'
    number  same sign and digits: 37 ─▶ 82, 12.5 ─▶ 40.3; 0 stays
    bool, None, members of enums stay

Equal values get equal stand-ins and different values different ones, within one ``StandIns``. They are drawn at random and the table is not stored, so nothing
leads from a stand-in back to its value.
"""

from __future__ import annotations

import copy
import math
import string
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from random import Random, SystemRandom
from typing import Any
from uuid import UUID

import numpy as np

from tidegate.model.errors import InvalidJob
from tidegate.records.row import Row, copied

MOST_TRIES = 100_000
"""Candidates for one stand-in that are tried before it may equal another one. Chosen: that takes less than a second."""
_BOUNDS = (2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**63, 2**64)
"""Where types of integers end: a stand-in lies between the same ones as its value, so that it fits the column."""
_ALL_BYTES = "".join(map(chr, range(256)))
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY_US = 86_400_000_000
"""Microseconds of a day."""
_DAYS = (date.min - _EPOCH.date()).days, (date.max - _EPOCH.date()).days


class StandIns:
    """Makes stand-ins. ``keep``: names of fields whose values stay. ``is_name(text)``: whether a key of a dict is the name of a field, which stays.

    ``merged``: how many different values got the stand-in of another one, because there are too few values of their length.
    """

    def __init__(
        self,
        keep: Set[str] = frozenset(),
        is_name: Callable[[str], bool] = str.isidentifier,
        chance: Random | None = None,
    ) -> None:
        self.keep = keep
        self.merged = 0
        self._is_name = is_name
        self._chance = chance or SystemRandom()
        self._known: dict[tuple[str, str], str] = {}
        self._taken: set[tuple[str, str]] = set()

    def text(self, value: str) -> str:
        return self._letters("text", value, [_alike(letter) for letter in value])

    def octets(self, value: bytes) -> bytes:
        """Replaces bytes: as text if they are printable UTF-8, otherwise byte by byte."""
        try:
            shown = value.decode()
        except UnicodeDecodeError:
            shown = ""
        if shown.isprintable() and shown:
            return self.text(shown).encode()
        return self._letters("bytes", value.decode("latin-1"), [_ALL_BYTES] * len(value)).encode("latin-1")

    def integer(self, value: int, kind: str = "int", low: int | None = None, high: int | None = None) -> int:
        """Replaces a number. ``kind``: what it counts, such as days, which have stand-ins of their own and keep their zeros at the end."""
        if low is None or high is None or not low <= value <= high:
            size = value if value >= 0 else -value - 1
            high = next((bound for bound in _BOUNDS if size < bound), size + 1) - 1
            low = max((bound for bound in _BOUNDS if size >= bound), default=0)
            low, high = (low, high) if value >= 0 else (-high - 1, -low - 1)

        sign, size = (1, value) if value >= 0 else (-1, -value)
        smallest, largest = sorted((sign * low, sign * high))
        step = 1 if kind == "int" else 10 ** (len(str(size)) - len(str(size).rstrip("0")))
        begin = -(-max(10 ** (len(str(size)) - 1), smallest) // step) * step
        count = (min(10 ** len(str(size)) - 1, largest) - begin) // step + 1
        if not value:
            return 0
        return int(self._draw(kind, str(value), count, lambda index: str(sign * (begin + step * index))))

    def real(self, value: float) -> float:
        shown = repr(value)
        found = float(self._letters("float", shown, _digits(shown)))
        return found if math.isfinite(found) or not math.isfinite(value) else math.copysign(sys.float_info.max, value)

    def decimal(self, value: Decimal) -> Decimal:
        shown = str(value)
        return Decimal(self._letters("decimal", shown, _digits(shown)))

    def days(self, value: int) -> int:
        """Replaces a date, in days since 1970."""
        return self.integer(value, "days", *_DAYS)

    def instant(self, value: int, unit: int = 1) -> int:
        """Replaces a point in time, in ``unit`` microseconds since 1970, by one that a ``datetime`` can be."""
        low, high = (_DAYS[0] + 1) * _DAY_US // unit, (_DAYS[1] - 1) * _DAY_US // unit
        return self.integer(value, f"instant {unit}", low, high)

    def of_day(self, value: int, day: int = _DAY_US) -> int:
        """Replaces a time of day, of which there are ``day``."""
        return self.integer(value, f"time {day}", 0, day - 1)

    def value(self, value: Any, name: str = "") -> Any:
        """Replaces what is in a Python object, in a copy of it. ``name``: of the field that has it. Raises ``InvalidJob`` for one that it cannot look into."""
        if name in self.keep or value is None or isinstance(value, (bool, np.bool_, Enum, type)):
            return value
        found = self._simple(value)
        if found is not None:
            return found
        try:
            return self._container(value, name)
        except RecursionError:
            raise _unknown(value, name) from None

    def _simple(self, value: Any) -> Any:
        match value:
            case np.generic():
                return type(value)(self.value(value.item()))
            case str():
                return _like(value, self.text(value))
            case int():
                return _like(value, self.integer(value))
            case float():
                return _like(value, self.real(value))
            case bytes() | bytearray():
                return type(value)(self.octets(bytes(value)))
            case Decimal():
                return self.decimal(value)
            case UUID():
                return UUID(self._letters("uuid", value.hex, ["0123456789abcdef"] * 32))
            case datetime():
                since = _EPOCH if value.tzinfo is None else _EPOCH_UTC
                moved = since + self.instant((value - since) // _MICROSECOND) * _MICROSECOND
                return moved if value.tzinfo is None else moved.astimezone(value.tzinfo)
            case date():
                return date.fromordinal(self.days((value - _EPOCH.date()).days) + _EPOCH.toordinal())
            case time():
                micros = (datetime.combine(_EPOCH, value.replace(tzinfo=None)) - _EPOCH) // _MICROSECOND
                return (_EPOCH + self.of_day(micros) * _MICROSECOND).time().replace(tzinfo=value.tzinfo)
            case timedelta():
                return self.integer(value // _MICROSECOND, "duration", -_DAY_US * 10**8, _DAY_US * 10**8) * _MICROSECOND
        return None

    def _container(self, value: Any, name: str) -> Any:
        match value:
            case Row():
                row = copied(value)
                names = row._fields or [""] * len(row._values)
                row._values = [self.value(found, field) for field, found in zip(names, row._values, strict=True)]
                return row
            case tuple() if hasattr(value, "_fields"):
                return type(value)(
                    *(self.value(found, field) for field, found in zip(value._fields, value, strict=True))
                )
            case list() | tuple() | set() | frozenset() | deque():
                return type(value)([self.value(found) for found in value])
            case dict():
                made = copy.copy(value)
                made.clear()
                for key, found in value.items():
                    is_name = isinstance(key, str) and self._is_name(key)
                    made[key if is_name else self.value(key)] = self.value(found, key if isinstance(key, str) else "")
                return made
            case np.ndarray():
                flat = [self.value(found) for found in value.ravel().tolist()]
                return np.array(flat, value.dtype).reshape(value.shape)
        names = [field.name for field in fields(value)] if is_dataclass(value) else _attributes(value)
        if not names:
            if callable(value) or type(value) is object:
                return value
            raise _unknown(value, name)
        made = copy.copy(value)
        for attribute in names:
            object.__setattr__(made, attribute, self.value(getattr(value, attribute), attribute))
        return made

    def _letters(self, kind: str, value: str, alphabets: Sequence[str]) -> str:
        """Returns the stand-in of a text: a letter of each alphabet."""

        def text_at(index: int) -> str:
            letters = []
            for alphabet in alphabets:
                index, place = divmod(index, len(alphabet))
                letters.append(alphabet[place])
            return "".join(letters)

        return self._draw(kind, value, math.prod(map(len, alphabets)), text_at)

    def _draw(self, kind: str, value: str, count: int, text_at: Callable[[int], str]) -> str:
        """Returns the stand-in of a value: one of ``count`` texts."""
        found = self._known.get((kind, value))
        if found is None:
            found = self._known[kind, value] = self._unused(kind, value, count, text_at)
            self._taken.add((kind, found))
        return found

    def _unused(self, kind: str, value: str, count: int, text_at: Callable[[int], str]) -> str:
        """Goes from a random text through the following ones until one is free."""
        first, spare = self._chance.randrange(count), ""
        for index in range(min(count, MOST_TRIES)):
            text = text_at((first + index) % count)
            if text != value:
                if (kind, text) not in self._taken:
                    return text
                spare = text
        if (kind, value) not in self._taken and count <= MOST_TRIES:
            return value  # the others of its length are all taken
        self.merged += 1
        return spare or value


@lru_cache(maxsize=4096)
def _alike(letter: str) -> str:
    """Returns the letters that may stand for a letter; itself alone for what is neither a letter nor a digit."""
    for letters in (string.ascii_lowercase, string.ascii_uppercase, string.digits):
        if letter in letters:
            return letters
    if not letter.isalnum():
        return letter
    kind, begin = unicodedata.category(letter), ord(letter) & ~63
    return "".join(other for other in map(chr, range(begin, begin + 64)) if unicodedata.category(other) == kind)


def _digits(shown: str) -> list[str]:
    """Returns the alphabets of a number that is written out: zeros in front, a fraction of 0 and an exponent stay."""
    mantissa, mark, exponent = shown.lower().partition("e") if shown[-1:].isdigit() else (shown, "", "")
    whole, point, fraction = mantissa.partition(".")
    found, is_begun = [], False
    for letter in whole + point + fraction:
        if not letter.isdigit() or (letter == "0" and not is_begun):
            found.append(letter)
            continue
        found.append(string.digits if is_begun else string.digits[1:])
        is_begun = True
    if fraction == "0":
        found[-1] = "0"
    return found + list(mark + exponent)


def _like(value: Any, found: Any) -> Any:
    """Returns a stand-in in the class of its value, which may be one of the user's."""
    return found if type(value) in (str, int, float) else type(value)(found)


def _attributes(value: object) -> list[str]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [
        name for name in [*getattr(value, "__dict__", ()), *slots] if hasattr(value, name) and not name.startswith("__")
    ]


def _unknown(value: object, name: str) -> InvalidJob:
    kind = type(value)
    where = f"the field {name!r} holds" if name else "the failure holds"
    how = f"; keep it with --keep {name}, if others may see it" if name else ""
    return InvalidJob(
        f"{where} an object of {kind.__module__}.{kind.__qualname__}, which cannot be replaced by a stand-in{how}"
    )
