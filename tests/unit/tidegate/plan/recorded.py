"""Plans that Flink 2.3.0 compiled, recorded with ``COMPILE PLAN`` (``TableEnvironment.compilePlanSql(...).asJsonString()``):
the official Nexmark queries, statements of the kinds that public programs hold, TPC-H in both modes, and the statements whose
results are recorded too. The archive has them by name, ``nexmark/q5.json``."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

_ARCHIVE = Path(__file__).parent / "recorded.tar.xz"


def plan_names() -> tuple[str, ...]:
    return tuple(_plans())


def plan_text(name: str) -> bytes:
    return _plans()[name]


@cache
def _plans() -> dict[str, bytes]:
    with tarfile.open(_ARCHIVE) as archive:
        members = {member.name: archive.extractfile(member) for member in archive}
        return {name: content.read() for name, content in members.items() if content is not None}
