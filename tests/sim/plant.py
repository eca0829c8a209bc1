"""A bug on purpose: a context in which the real classes are broken in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.sim.laws import Law
from tests.sim.schedule import EVERYTHING, Mix


@dataclass(frozen=True, slots=True)
class Plant:
    """``laws``: those that may catch it."""

    name: str
    laws: frozenset[Law]
    plant: Callable[[], Any]
    mix: Mix = EVERYTHING
    """Schedules in which it has many occasions."""
    first_seed: int = 0
    """The first of the schedules that are tried: a bug that needs a rare one is looked for there before all others."""


def patched(owner: object, name: str, value: object) -> Callable[[], Any]:
    return lambda: mock.patch.object(owner, name, value)
