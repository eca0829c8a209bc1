"""Options of the simulation: ``pytest tests/sim --sim-seed N`` (given to a run of everything they are not known)."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--sim-seed", type=int, default=None, help="run this one schedule only (a failure prints its seed)")
    group.addoption("--sim-schedules", type=int, default=None, help="number of schedules, from the seed of the day on")
