"""Implements ``tidegate.testing.replay``, which replays a kept failure in a test."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tidegate.aio.homes import failures_of
from tidegate.aio.signing import signing_of
from tidegate.model.configuration import Configuration
from tidegate.taskmanager.replaying.opening import find_failure, open_program
from tidegate.taskmanager.replaying.replay import FailureReplay, ReplayOutcome


def replay(failure: str | Path, configuration: Mapping[str, str] | None = None) -> ReplayOutcome:
    """Runs the subtask of a kept failure again, as `tidegate replay` does, and returns what came of it.

    ``failure`` is its folder or id. ``configuration``: options by key, such as ``tidegate.home``. Raises as `tidegate replay` fails: for a failure that
    is not there, is damaged, is not signed by this user, or cannot be replayed. What user code raises is in the result::

        outcome = replay("tests/failures/20261129-231503-a1b2c3")
        assert outcome.reproduced and outcome.record == 57
    """
    known = Configuration.from_strings(configuration or {})
    found = find_failure(failures_of(known), str(failure))
    signing = signing_of(known)
    with tempfile.TemporaryDirectory(prefix="tidegate-replay-") as directory:
        program = open_program(found, None if signing is None else signing(), Path(directory))
        return FailureReplay(found, program, Path(directory)).run()
