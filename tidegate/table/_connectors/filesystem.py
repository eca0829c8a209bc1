"""Tables of ``filesystem``: the options of Flink's connector on the source and the sink of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

OPTIONS: Final = frozenset(
    {"sink.parallelism", "sink.rolling-policy.file-size", "sink.rolling-policy.rollover-interval"}
)
READABLE: Final[Mapping[str, str]] = {}
"""Metadata of files, with their types, by Flink's ``FileSystemTableSource.ReadableFileInfo``."""
VALUES: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {}
"""How values of options are checked, as in ``registry``."""
