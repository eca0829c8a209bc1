"""Defines what is sent to a Spark worker to start a subtask: addresses, a token and an attempt id; never user code."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SubtaskEntry:
    """Addresses and identity with which a worker finds its TaskManager. ``settings``: the fields of ``WorkerSettings`` as texts."""

    control_address: str
    attempt: str
    token: str
    settings: dict[str, str] = field(default_factory=dict)
