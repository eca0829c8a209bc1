"""Mistakes that are planted into the operators, to show that a case finds each: by name, what makes it for the time of a ``with``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from tidegate.columnar.aggregates import plan, sketches
from tidegate.taskmanager.operators.columns import aggregate
from tidegate.taskmanager.windows.columns import local, session_merging, window
from tidegate.taskmanager.windows.state import files as window_files


@contextmanager
def _replaced(target: Any, name: str, by: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """``by``: makes the wrong function of the right one."""
    with mock.patch.object(target, name, by(getattr(target, name))):
        yield


def _ranks_from_below(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda share, totals: np.floor(share * (totals - 1)).astype(np.int64).clip(0)


def _no_upper_halves(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda low, high: low.cast(pa.float64(), safe=False)


def _counts_of_one(right: Callable[..., Any]) -> Callable[..., Any]:
    """Partials of a count are counted, in place of added up."""
    return lambda scatter: "max" if scatter == "count" else right(scatter)


def _first_rows_of_levels(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, data: right(self, data.slice(1))


def _late_by_one(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *times: right(*times) + 1


def _sessions_that_do_not_touch(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda keys, starts, ends: right(keys, starts, ends - 1)


def _same_name(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda name: name


def _last_is_first(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda kind, cardinality, *, is_last: right(kind, cardinality, is_last=False)


def _forgotten(right: Callable[..., Any]) -> Callable[..., Any]:
    """What is held is not added to."""
    return lambda scatter, old, new: new


def _squares_without_their_scale(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, codes, mean, m2: None


def _not_flushed(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, checkpoint_id: None


PLANTED: dict[str, tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "a rank too low": (sketches, "_rank", _ranks_from_below),
    "an average wraps": (plan, "_total", _no_upper_halves),
    "counts are merged as maxima": (plan, "_merging", _counts_of_one),
    "a restore loses a row": (window_files.WindowFormat, "partials", _first_rows_of_levels),
    "a window ends too early": (window, "last_ended", _late_by_one),
    "sessions that touch are two": (session_merging, "find_sessions", _sessions_that_do_not_touch),
    "names inside are the user's": (plan, "internal_name", _same_name),
    "last is first": (sketches, "_ByTime", _last_is_first),
    "running aggregates forget": (aggregate, "_combined", _forgotten),
    "squares leave float64": (sketches._Moments, "_make_room", _squares_without_their_scale),
    "a barrier overtakes rows": (local.ColumnarWindowLocal, "prepare_snapshot", _not_flushed),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The mistake is there inside."""
    target, attribute, by = PLANTED[name]
    with _replaced(target, attribute, by):
        yield


__all__ = ["PLANTED", "planted"]
