"""Makes the redacted copy of a failure and replays it: does it fail with the same exception at the same record, and on which values does that depend?

original ─▶ replay ┐
                   ├─▶ the same? ── no ─▶ copies in which one field after the other is replaced, beside the others ─▶ what has to stay
copy ────▶ replay ─┘
"""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

from tidegate.model.program import VertexProgram
from tidegate.taskmanager.recording.failures import Failure
from tidegate.taskmanager.replaying.redaction import Redacted, names_in, redact, write_message
from tidegate.taskmanager.replaying.replay import FailureReplay, ReplayOutcome

Load = Callable[[], VertexProgram]
"""Loads the program anew, since functions keep what they do not put into state."""


@dataclass(frozen=True, slots=True)
class RedactedReplay:
    """A copy, and what its replay came to. ``is_same``: it fails with an exception of the same class, at the same line and record as the original."""

    copy: Failure
    redacted: Redacted
    original: ReplayOutcome
    outcome: ReplayOutcome
    is_same: bool


def redact_and_replay(failure: Failure, load: Load, folder: Path, keep: Set[str], directory: Path) -> RedactedReplay:
    """Writes a redacted copy into ``folder`` and replays both. The texts of the copy's exception are those of its own replay. ``directory``: for temporary
    files. Raises ``InvalidJob``, ``CorruptData``, ``OSError``.
    """
    original = FailureReplay(failure, load(), directory).run()
    redacted = redact(failure, load(), folder, keep)
    try:
        outcome = FailureReplay(redacted.failure, load(), directory, exact=False).run()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if outcome.error is not None:
        copy = write_message(redacted.failure, outcome.error.message, outcome.error.details, outcome.error.code)
    else:
        kind = type(original.user_error).__name__
        text = f"{kind}; what it said is left out, since it may hold data, and the copy does not fail"
        copy = write_message(redacted.failure, text, "", failure.code)
    return RedactedReplay(copy, redacted, original, outcome, is_same_failure(original, outcome))


def is_same_failure(one: ReplayOutcome, other: ReplayOutcome) -> bool:
    """Tells whether two replays failed with exceptions of one class, raised by the same line, at the same record or call."""
    return one.error is not None and _place_of(one) == _place_of(other)


def find_needed(failure: Failure, load: Load, keep: Set[str], directory: Path) -> list[str] | None:
    """Finds the fields whose data the failure depends on: without their real values a redacted copy does not fail in the same way.

    Leaves out one name after the other, with a copy and a replay for each, and returns those that were needed, in their order. ``keep``: names that stay as
    they are anyway. Returns ``None`` when the copy does not fail even with all of them kept.
    """
    original = FailureReplay(failure, load(), directory).run()
    names = [name for name in names_in(failure, load()) if name not in keep]

    def comes_again(kept: Set[str]) -> bool:
        place = directory / "trial"
        try:
            copy = redact(failure, load(), place, kept).failure
            return is_same_failure(original, FailureReplay(copy, load(), directory, exact=False).run())
        finally:
            shutil.rmtree(place, ignore_errors=True)

    if not comes_again({*keep, *names}):
        return None
    needed = list(names)
    for name in names:
        rest = [other for other in needed if other != name]
        if comes_again({*keep, *rest}):
            needed = rest
    return needed


def _place_of(outcome: ReplayOutcome) -> tuple[object, ...]:
    raised = outcome.user_error
    frames = [] if raised is None else traceback.extract_tb(raised.__traceback__)
    last = frames[-1] if frames else None
    line = None if last is None else (last.filename, last.lineno)
    return None if raised is None else type(raised).__qualname__, line, outcome.record, outcome.at
