"""The keyed backend that ``state.backend.type`` names."""

from __future__ import annotations

from collections.abc import Callable

from taskmanager.state.backend import KeyedBackend
from taskmanager.state.keyed_backend import KeyedStateBackend
from tidegate.common.typeinfo import TypeInformation
from tidegate.model.keygroups import KeyGroupRange


def open_keyed_backend(
    operator: str, owned: KeyGroupRange, key_type: TypeInformation | None, now_ms: Callable[[], int]
) -> KeyedBackend:
    return KeyedStateBackend(operator, owned, key_type, now_ms)
