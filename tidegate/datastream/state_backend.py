"""State backends by name (PyFlink: ``pyflink.datastream.state_backend``)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HashMapStateBackend", "StateBackend"]


@dataclass(frozen=True)
class StateBackend:
    """``backend_type`` is the text of ``state.backend.type``."""

    backend_type: str


class HashMapStateBackend(StateBackend):
    """State as Python objects and Arrow arrays in the memory of the subtask."""

    def __init__(self) -> None:
        super().__init__("hashmap")
