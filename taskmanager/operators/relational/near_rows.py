"""Finds the stored rows whose times are near those of a batch's rows, by arrays.

stored rows by key and time ─▶ for each row of the batch a range of them, found by two searches ─▶ only stored rows that are within a range
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Places: TypeAlias = npt.NDArray[np.intp]
Times: TypeAlias = npt.NDArray[np.int64]
_WIDEST = 1 << 62
"""Keys and times are joined to one number below this, which leaves the sign of 64 bits free."""


@dataclass(frozen=True, slots=True)
class NearRows:
    """Stored rows that are near a row of a batch. ``stored``: their places, by key and time. ``begins``, ``sizes``: which of these are near each row."""

    stored: Places
    begins: Places
    sizes: Places


def find_near(keys: Places, firsts: Times, lasts: Times, stored_keys: Places, stored_times: Times) -> NearRows | None:
    """Finds the stored rows of each row's key from the time in ``firsts`` to that in ``lasts``, which are not earlier. There is at least one stored row.

    Returns ``None`` if times are so far apart that times and keys do not fit into 64 bits together.
    """
    low, high = int(stored_times.min()) - 1, int(stored_times.max()) + 1
    width = high - low + 1
    if width * (int(max(keys.max(), stored_keys.max())) + 1) >= _WIDEST:
        return None
    lifted = stored_keys * width + (stored_times - low)
    order = np.argsort(lifted, kind="stable")
    lifted = lifted[order]
    begins = np.searchsorted(lifted, keys * width + (np.clip(firsts, low, high) - low), "left")
    ends = np.searchsorted(lifted, keys * width + (np.clip(lasts, low, high) - low), "right")
    covered = np.zeros(len(order) + 1, np.intp)
    np.add.at(covered, begins, 1)
    np.add.at(covered, ends, -1)
    is_near = np.cumsum(covered[:-1]) > 0
    place_of = np.append(0, np.cumsum(is_near))
    return NearRows(order[is_near], place_of[begins], ends - begins)


__all__ = ["NearRows", "find_near"]
