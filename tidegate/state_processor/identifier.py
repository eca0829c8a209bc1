"""Identifies an operator of a savepoint (Flink: ``OperatorIdentifier.java``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.model.errors import Misuse
from tidegate.model.ids import OperatorId, hex_id

__all__ = ["OperatorIdentifier"]

_HEX32 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class OperatorIdentifier:
    """The identity of an operator. ``uid``: empty where only the id is known."""

    operator_id: OperatorId
    uid: str = ""

    @staticmethod
    def for_uid(uid: str) -> OperatorIdentifier:
        """Returns the identifier of an operator with ``uid(...)`` in its program. Raises ``Misuse`` for an empty name."""
        if not uid:
            raise Misuse("the uid of an operator must not be empty")
        return OperatorIdentifier(OperatorId(hex_id("uid", uid)), uid)

    @staticmethod
    def for_uid_hash(uid_hash: str) -> OperatorIdentifier:
        """Returns the identifier of an operator id: 32 hex digits, as ``tidegate state list`` prints it. Raises ``Misuse``."""
        if _HEX32.fullmatch(uid_hash.lower()) is None:
            raise Misuse(f"{uid_hash!r} is not an operator id, which has 32 hex digits")
        return OperatorIdentifier(OperatorId(uid_hash.lower()))

    def __str__(self) -> str:
        return f"'{self.uid}'" if self.uid else self.operator_id
