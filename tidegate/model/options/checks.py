"""Checks across options: each detects contradicting values that are valid by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tidegate.model.graph import CheckpointingMode
from tidegate.model.options import (
    CheckpointingOptions,
    CheckpointStorageKind,
    ClusterOptions,
    ConfigOption,
    HeartbeatOptions,
    PipelineOptions,
    RestartStrategyOptions,
    StateBackendKind,
    StateOptions,
    TaskManagerOptions,
)
from tidegate.model.options.option import DeclaredOption

T = TypeVar("T")


class Options(Protocol):
    """The options that a check can read."""

    def get(self, option: ConfigOption[T]) -> T: ...

    def source_of(self, option: DeclaredOption) -> str: ...


def cross_checks(options: Options, unreadable: frozenset[str] = frozenset()) -> list[str]:
    """Returns every contradiction, as one sentence each with the places of the options; empty when there is none.

    A check that needs one of the `unreadable` keys is left out: what is wrong with that key is reported already.
    """
    problems: list[str] = []
    for check in _CHECKS:
        try:
            problems += check(_Readable(options, unreadable))
        except _Unreadable:
            continue
    return problems


class _Unreadable(Exception):
    """A check reads an option whose text is invalid."""


class _Readable:
    """The options except those whose text is invalid."""

    def __init__(self, options: Options, unreadable: frozenset[str]) -> None:
        self._options = options
        self._unreadable = unreadable

    def get(self, option: ConfigOption[T]) -> T:
        if option.key in self._unreadable:
            raise _Unreadable(option.key)
        return self._options.get(option)

    def source_of(self, option: DeclaredOption) -> str:
        return self._options.source_of(option)


def _unaligned_is_alone(options: Options) -> list[str]:
    unaligned, concurrent = CheckpointingOptions.UNALIGNED, CheckpointingOptions.MAX_CONCURRENT
    counts = options.get(unaligned) and options.get(CheckpointingOptions.MODE) is CheckpointingMode.EXACTLY_ONCE
    if counts and options.get(concurrent) != 1:
        return [f"{_as_set(options, unaligned)} needs {concurrent.key} to be 1, but {_as_set(options, concurrent)}"]
    return []


def _backlog_makes_checkpoints_rarer(options: Options) -> list[str]:
    interval, during_backlog = CheckpointingOptions.INTERVAL, CheckpointingOptions.INTERVAL_DURING_BACKLOG
    interval_ms, during_backlog_ms = options.get(interval), options.get(during_backlog)
    if interval_ms is not None and during_backlog_ms and during_backlog_ms < interval_ms:
        return [
            f"{_as_set(options, during_backlog)} is below {_as_set(options, interval)}; use 0 for none during backlog"
        ]
    return []


def _storage_has_a_directory(options: Options) -> list[str]:
    storage, directory = CheckpointingOptions.STORAGE, CheckpointingOptions.DIRECTORY
    if options.get(storage) is CheckpointStorageKind.FILESYSTEM and not options.get(directory):
        return [f"{_as_set(options, storage)} needs {directory.key}"]
    return []


def _backend_is_built(options: Options) -> list[str]:
    if options.get(StateOptions.BACKEND) is StateBackendKind.FORST:
        return [f"{_as_set(options, StateOptions.BACKEND)} is not available here; use hashmap or rocksdb"]
    return []


def _parallelism_fits(options: Options) -> list[str]:
    parallelism, most = PipelineOptions.PARALLELISM, PipelineOptions.MAX_PARALLELISM
    if 0 < options.get(most) < options.get(parallelism):
        return [f"{_as_set(options, parallelism)} is above {_as_set(options, most)}"]
    return []


def _managed_fits_process(options: Options) -> list[str]:
    managed, process = TaskManagerOptions.MANAGED_SIZE, TaskManagerOptions.PROCESS_SIZE
    managed_bytes, process_bytes = options.get(managed), options.get(process)
    if managed_bytes is not None and process_bytes is not None and managed_bytes > process_bytes:
        return [f"{_as_set(options, managed)} is above {_as_set(options, process)}"]
    return []


def _ordered(options: Options) -> list[str]:
    pairs: tuple[tuple[ConfigOption[int], ConfigOption[int]], ...] = (
        (HeartbeatOptions.INTERVAL, HeartbeatOptions.TIMEOUT),
        (ClusterOptions.REGISTRATION_INITIAL_TIMEOUT, ClusterOptions.REGISTRATION_MAX_TIMEOUT),
        (RestartStrategyOptions.EXPONENTIAL_INITIAL, RestartStrategyOptions.EXPONENTIAL_MAX),
        (TaskManagerOptions.NETWORK_MIN, TaskManagerOptions.NETWORK_MAX),
    )
    return [
        f"{_as_set(options, less)} is above {_as_set(options, more)}"
        for less, more in pairs
        if options.get(less) > options.get(more)
    ]


def _as_set(options: Options, option: DeclaredOption) -> str:
    source = options.source_of(option)
    return f"{option.key} = {option.format(options.get(option))}" + (f" ({source})" if source else "")


_CHECKS: tuple[Callable[[Options], list[str]], ...] = (
    _unaligned_is_alone,
    _backlog_makes_checkpoints_rarer,
    _storage_has_a_directory,
    _backend_is_built,
    _parallelism_fits,
    _managed_fits_process,
    _ordered,
)
