"""Blocks of seeded schedules, of which ``--sim-seed N`` repeats one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tests.sim.plant import Plant
from tests.sim.seeds import BASE_SEED

W = TypeVar("W")


def sweep(run: Callable[[int], W], folder: str, block: int, size: int, config: pytest.Config) -> list[W]:
    """Returns the worlds of a block after they ran; none where one schedule was repeated, of which nothing can be counted. Raises
    ``AssertionError`` that says how a schedule of ``tests/sim/<folder>`` is repeated."""
    only = config.getoption("--sim-seed", None)
    seeds = range(BASE_SEED + block * size, BASE_SEED + (block + 1) * size) if only is None else range(only, only + 1)
    worlds = [_ran(run, folder, seed) for seed in seeds]
    return worlds if only is None else []


def _ran(run: Callable[[int], W], folder: str, seed: int) -> W:
    try:
        return run(seed)
    except AssertionError as error:
        raise AssertionError(f"{error}\nrepeat it: pytest tests/sim/{folder} --sim-seed {seed}") from error


def caught_by(plant: Plant, run: Callable[[int], object], within: int) -> AssertionError | None:
    """Returns how the planted bug shows in one of the first schedules: a broken law, or what a machine says of itself."""
    with plant.plant():
        for seed in range(within):
            try:
                run(seed)
            except AssertionError as broken:
                return broken
    return None
