"""Options of the `rocksdb` backend (Flink: `RocksDBOptions`, `RocksDBConfigurableOptions`)."""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import BOOL, FLOAT, INT, LIST, MEMORY_SIZE, choice, option, optional

_P = "state.backend.rocksdb"


class PriorityQueueStateType(Enum):
    """Where timers are stored."""

    HEAP = "HEAP"
    ROCKSDB = "ROCKSDB"


class RocksDBOptions:
    """Options of RocksDB's directories and memory."""

    LOCAL_DIRECTORIES = optional(
        f"{_P}.localdir",
        LIST,
        "Directories for its files, dealt by subtask; else the working directory of the attempt. They hold nothing of value.",
    )
    MANAGED_MEMORY = option(
        f"{_P}.memory.managed",
        BOOL,
        "true",
        "Block cache and write buffers fit into the managed memory of the slot, when that has a size.",
    )
    FIXED_PER_SLOT = optional(
        f"{_P}.memory.fixed-per-slot",
        MEMORY_SIZE,
        "The memory of block cache and write buffers, instead of the managed.",
    )
    WRITE_BUFFER_RATIO = option(
        f"{_P}.memory.write-buffer-ratio",
        FLOAT,
        "0.5",
        "The part of managed or fixed memory for write buffers.",
        minimum=0,
        maximum=1,
    )
    BLOCK_CACHE_SIZE = option(
        f"{_P}.block.cache-size", MEMORY_SIZE, "8 mb", "Block cache, when its memory is neither managed nor fixed."
    )
    WRITE_BUFFER_SIZE = option(
        f"{_P}.writebuffer.size",
        MEMORY_SIZE,
        "64 mb",
        "What is gathered in memory before it becomes a file.",
        minimum=1,
    )
    WRITE_BUFFER_COUNT = option(
        f"{_P}.writebuffer.count",
        INT,
        "2",
        "Write buffers in memory, the one that is written to disk included.",
        minimum=2,
    )
    TIMER_SERVICE = option(
        f"{_P}.timer-service.factory",
        choice(PriorityQueueStateType),
        "ROCKSDB",
        "Where timers live: `ROCKSDB`, as rows beside the other state, the earliest of them in memory; `HEAP`, all in memory, which is "
        "faster while they fit.",
    )
    TIMER_CACHE_SIZE = option(
        f"{_P}.timer-service.cache-size",
        INT,
        "128",
        "Timers of each key group that are in memory, the earliest ones, when they live in RocksDB.",
        minimum=1,
    )
    THREADS = option(f"{_P}.thread.num", INT, "2", "Threads for flushes and compactions.", minimum=1)
    BLOOM_FILTER = option(
        f"{_P}.use-bloom-filter", BOOL, "false", "A filter in each file, for keys that are looked up and not there."
    )
    BLOOM_FILTER_BITS = option(
        f"{_P}.bloom-filter.bits-per-key", FLOAT, "10.0", "Bits that the filter has for each key.", minimum=1
    )
