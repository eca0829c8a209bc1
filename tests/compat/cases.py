"""Jobs whose checkpoints are kept from version to version, and what each must have given in the end, wherever its checkpoint
was taken. They may gain cases; what is there must stay as it is, or the kept checkpoints are of other jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat import files, kafka, keyed, often, operator_state, unaligned, windows
from tests.compat.outline import Outline
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.model.checkpoint import SnapshotType

Configuration = Mapping[str, str]
IN_FILES = {"execution.checkpointing.data-inline-threshold": "0 b"}
INLINE = {"execution.checkpointing.data-inline-threshold": "64 kb"}
ROCKSDB = {**IN_FILES, "state.backend.type": "rocksdb"}


@dataclass(frozen=True)
class Case:
    """``build`` makes the job of an outline, ``check`` asserts what a world has to hold when it has finished."""

    build: Callable[[Outline], StreamExecutionEnvironment]
    check: Callable[[Outline], None]
    is_ready: Callable[[Outline], bool]
    """Its checkpoint may be taken."""
    configuration: Configuration = field(default_factory=lambda: IN_FILES)
    incremental: bool = False
    """With levels, and files in ``shared/``."""
    snapshot: SnapshotType = SnapshotType.CHECKPOINT
    is_unaligned: bool = False
    prepare: Callable[[Path], None] = lambda place: None
    """What is outside of the job: its input."""
    needs_broker: bool = False


CASES: dict[str, Case] = {
    "hashmap": Case(keyed.build, keyed.check, keyed.is_ready),
    "hashmap-inline": Case(keyed.build, keyed.check, keyed.is_ready, INLINE),
    "hashmap-compressed": Case(
        keyed.build,
        keyed.check,
        keyed.is_ready,
        {**IN_FILES, "execution.checkpointing.snapshot-compression": "true"},
        snapshot=SnapshotType.SAVEPOINT,
    ),
    "hashmap-incremental": Case(often.build, often.check, keyed.is_ready, incremental=True),
    "rocksdb": Case(keyed.build, keyed.check, keyed.is_ready, ROCKSDB, snapshot=SnapshotType.SAVEPOINT),
    "rocksdb-incremental": Case(often.build, often.check, keyed.is_ready, ROCKSDB, incremental=True),
    "columnar-incremental": Case(keyed.build_totals, keyed.check_totals, keyed.is_ready, incremental=True),
    "windows": Case(windows.build, windows.check, windows.is_ready),
    "windows-rocksdb": Case(windows.build, windows.check, windows.is_ready, ROCKSDB),
    "operator-state": Case(operator_state.build, operator_state.check, operator_state.is_ready),
    "unaligned": Case(unaligned.build, unaligned.check, unaligned.is_ready, is_unaligned=True),
    "files": Case(files.build, files.check, files.is_ready, prepare=files.prepare),
    "kafka": Case(kafka.build, kafka.check, kafka.is_ready, needs_broker=True),
}
