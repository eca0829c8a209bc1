"""Values of many keys that were looked up by some names together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, compress, repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.model.values import StateValue
from tidegate.taskmanager.keyed_state.entry import Namespace

Places = npt.NDArray[np.intp]


class NamedValues(NamedTuple):
    """The values that are there, by key and then by name: the place of each one's key, that of its name, and the value."""

    keys: Places
    names: Places
    values: Sequence[StateValue]


def of_columns(columns: Sequence[Sequence[StateValue]]) -> NamedValues:
    """Returns the values of columns. ``columns``: for each name a value of each key, ``None`` for each that is missing."""
    values = list(chain.from_iterable(zip(*columns, strict=True)))
    held = np.fromiter((value is not None for value in values), np.bool_, len(values))
    keys, names = np.divmod(np.flatnonzero(held), max(len(columns), 1))
    return NamedValues(keys, names, list(compress(values, held)))


def of_mappings(held: Sequence[dict[Namespace, StateValue]], names: Sequence[Namespace]) -> NamedValues:
    """Returns the values with some names of mappings by name. It takes the time of all that they have."""
    place_of = dict(zip(names, range(len(names)), strict=True))
    sizes = np.fromiter(map(len, held), np.intp, len(held))
    count = int(sizes.sum())
    keys = np.repeat(np.arange(len(held)), sizes)
    found: Iterable[int] = map(place_of.get, chain.from_iterable(held), repeat(-1))
    places = np.fromiter(found, np.intp, count)
    values = list(chain.from_iterable(map(dict.values, held)))
    wanted = places >= 0
    if not wanted.all():
        keys, places, values = keys[wanted], places[wanted], list(compress(values, wanted))
    if ((keys[1:] == keys[:-1]) & (places[1:] < places[:-1])).any():
        order = np.lexsort((places, keys))
        keys, places, values = keys[order], places[order], [values[at] for at in order.tolist()]
    return NamedValues(keys, places, values)


__all__ = ["NamedValues", "of_columns", "of_mappings"]
