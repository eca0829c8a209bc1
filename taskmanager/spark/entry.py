"""What travels to a Spark worker: addresses, a token and an attempt id, never user code."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SubtaskEntry:
    """What a worker needs to find its TaskManager. ``settings`` are those of ``WorkerSettings``, as texts."""

    control_address: str
    attempt: str
    token: str
    settings: dict[str, str] = field(default_factory=dict)
