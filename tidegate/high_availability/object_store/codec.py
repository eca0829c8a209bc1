"""Encodes the ledger for the bucket: as JSON with base64 values."""

from __future__ import annotations

import msgspec

from tidegate.high_availability.object_store.ledger import Ledger
from tidegate.model.errors import CorruptData, VersionMismatch
from tidegate.wire.unreadable import UNREADABLE

FORMAT = 1
"""The version of the format; it grows when an older tidegate must not change the ledger."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    written_by: str
    term: int
    revision: int
    holder: str
    lease_ms: int
    entries: dict[str, bytes]


class _Head(msgspec.Struct, frozen=True):
    format: int
    written_by: str = "another version of tidegate"


def encode_ledger(ledger: Ledger, version: str) -> bytes:
    """Encodes the ledger. ``version``: that of tidegate."""
    return msgspec.json.encode(
        _Kept(
            format=FORMAT,
            written_by=f"tidegate {version}",
            term=ledger.term,
            revision=ledger.revision,
            holder=ledger.holder,
            lease_ms=ledger.lease_ms,
            entries=dict(ledger.entries),
        )
    )


def decode_ledger(content: bytes, place: str) -> Ledger:
    """Decodes the ledger. Raises ``CorruptData``, or ``VersionMismatch`` where a later version has written it."""
    try:
        head = msgspec.json.decode(content, type=_Head)
        if head.format != FORMAT:
            raise VersionMismatch(
                f"{place} has format {head.format}, written by {head.written_by}; this version of tidegate knows format {FORMAT}. Nothing was "
                "changed: start the version that wrote it, or choose another high-availability.cluster-id"
            )
        kept = msgspec.json.decode(content, type=_Kept)
    except UNREADABLE as error:
        raise CorruptData(
            f"{place} is not a ledger of tidegate ({error}). Nothing was changed: put an earlier version of the object back, or choose another "
            "high-availability.cluster-id"
        ) from None
    return Ledger(kept.term, kept.revision, kept.holder, kept.lease_ms, kept.entries)
