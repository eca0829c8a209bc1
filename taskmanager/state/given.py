"""Checks what functions pass to list and map state, for all backends.

a list, a tuple              ─▶ as it is
another iterable             ─▶ a list of its elements
a dict                       ─▶ as it is
pairs, such as dict.items()  ─▶ a list of them: what PyFlink's put_all takes
anything else, ``None`` too  ─▶ ``TypeError``, before anything is changed
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from tidegate.model.values import MapKey, StateValue


def elements_of(values: Iterable[StateValue]) -> Sequence[StateValue]:
    """Returns the elements for a list as a sequence. Raises ``TypeError`` if they are not iterable."""
    if isinstance(values, (list, tuple)):
        return values
    if not isinstance(values, Iterable):
        raise TypeError(
            f"ListState takes a list of elements, not {values!r}: update([]) and clear() remove what there is"
        )
    return list(values)


def items_of(
    values: Mapping[MapKey, StateValue] | Iterable[tuple[MapKey, StateValue]],
) -> Mapping[MapKey, StateValue] | Sequence[tuple[MapKey, StateValue]]:
    """Returns the entries for a map. Raises ``TypeError`` if they are not iterable or have the key ``None``, and ``ValueError`` for elements that are not
    pairs.
    """
    if isinstance(values, Mapping):
        if None in values:
            refuse_no_key(values[None])
        return values
    if not isinstance(values, Iterable):
        raise TypeError(f"put_all takes a dict, not {values!r}: clear() removes what there is")
    pairs = list(values)
    for key, value in pairs:
        if key is None:
            refuse_no_key(value)
    return pairs


def refuse_no_key(value: StateValue) -> NoReturn:
    """Raises ``TypeError`` for a map entry with the key ``None``."""
    raise TypeError(f"a map in state has no entry for the key None, so its value cannot be set to {value!r}")
