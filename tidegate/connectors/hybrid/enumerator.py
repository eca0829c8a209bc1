"""The enumerator of a hybrid source: selects the part that is read, and assigns its splits to readers.

    listed ─▶ Switch to each reader ─▶ splits: to a reader that asks, or all at once ─▶ PartRead of every reader ─▶ the next part is listed ─▶ ...

Laws. No reader begins a part before all have ended the one before it. The part, and its splits that no reader has, are in every checkpoint: a job
that restarts goes on in that part. A part is listed when it begins, so what ``latest`` means is decided at the switch.
Follows Flink's ``HybridSourceSplitEnumerator.java``, with the splits of one part in one list instead of an enumerator for each part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tidegate.connectors import base
from tidegate.connectors.hybrid.parts import HybridCheckpoint, HybridPart, HybridSplit, PartRead, Switch
from tidegate.connectors.source.enumerator import SplitEnumerator, SplitEnumeratorContext
from tidegate.model.errors import InternalError
from tidegate.model.values import UserObject

TOGETHER_BYTES = 4 << 20
"""The most bytes of small splits that are assigned together, as by the coordinator of files: they take some tens of milliseconds to read, a request
takes a few."""
ROUNDS_LEFT = 2
"""The divisor of the remaining splits in one assignment: a reader gets at most its share of half of them, so that no reader holds many when the others
are finished."""


class HybridEnumerator(SplitEnumerator[HybridSplit, HybridCheckpoint]):
    """Assigns the splits of a hybrid source, part by part. ``deals_in_advance``: whether readers get all of their splits of a part at its start,
    because they generate watermarks (docs/adr/0105)."""

    def __init__(
        self,
        context: SplitEnumeratorContext[HybridSplit],
        parts: Sequence[HybridPart],
        restored: HybridCheckpoint | None,
        *,
        deals_in_advance: bool,
    ) -> None:
        self._context = context
        self._parts = parts
        self._deals_in_advance = deals_in_advance
        self._part = 0 if restored is None else restored.part
        self._source = parts[0].made(None) if restored is None else restored.source
        listed = None if restored is None else restored.unassigned
        self._unassigned = None if listed is None else deque(listed)
        self._ended: set[int] = set()

    def start(self) -> None:
        self._context.set_is_processing_backlog(not self._is_last)
        if self._unassigned is None:
            self._list()

    def add_reader(self, subtask_id: int) -> None:
        if self._unassigned is not None:
            self._open(subtask_id)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        if not self._unassigned:
            self._context.signal_no_more_splits(subtask_id)
        else:
            self._context.assign_splits({subtask_id: self._taken(self._unassigned)})

    def handle_source_event(self, subtask_id: int, source_event: UserObject) -> None:
        if not isinstance(source_event, PartRead):
            raise InternalError(
                f"reader {subtask_id} of a hybrid source sent an event of the class {type(source_event).__name__}, which its enumerator does not know"
            )
        if source_event.part == self._part:
            self._ended.add(subtask_id)
            if len(self._ended) == self._context.current_parallelism() and not self._is_last:
                self._switch()

    def add_splits_back(self, splits: Sequence[HybridSplit], subtask_id: int) -> None:
        assert self._unassigned is not None, "what was assigned had been listed"
        self._unassigned.extendleft(reversed([split for split in splits if split.part == self._part]))

    def snapshot_state(self, checkpoint_id: int) -> HybridCheckpoint:
        waiting = None if self._unassigned is None else tuple(self._unassigned)
        return HybridCheckpoint(self._part, self._source, waiting)

    @property
    def _is_last(self) -> bool:
        return self._part == len(self._parts) - 1

    @property
    def _is_asked(self) -> bool:
        """Whether readers request splits. Readers of a source that discovers splits discover those of their own instead."""
        return self._source.takes_splits and self._source.discovery_ms is None and not self._deals_in_advance

    def _switch(self) -> None:
        self._part += 1
        self._source = self._parts[self._part].made(self._source)
        self._context.set_is_processing_backlog(not self._is_last)
        self._ended.clear()
        self._unassigned = None
        self._list()

    def _list(self) -> None:
        readers = self._context.current_parallelism()
        self._context.call_async(lambda: self._source.list_splits(readers), self._on_listed)

    def _on_listed(self, splits: list[base.Split] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        assert splits is not None
        places = {split_id: place for place, split_id in enumerate(sorted(split.split_id for split in splits))}
        made = None if isinstance(self._parts[self._part].source, base.Source) else self._source
        self._unassigned = deque(HybridSplit(self._part, places[s.split_id], s, made) for s in splits)
        for subtask in self._context.registered_readers():
            self._open(subtask)

    def _open(self, subtask: int) -> None:
        assert self._unassigned is not None
        if not self._is_asked:
            mine = [split for split in self._unassigned if self._owner_of(split) == subtask]
            self._unassigned = deque(split for split in self._unassigned if self._owner_of(split) != subtask)
            self._context.assign_splits({subtask: mine})
        switch = Switch(self._part, self._source, self._is_asked, self._is_last)
        self._context.send_event_to_source_reader(subtask, switch)

    def _owner_of(self, split: HybridSplit) -> int:
        readers = self._context.current_parallelism()
        owner = self._source.owner_of(split.split, readers)
        return split.place % readers if owner is None else owner

    def _taken(self, waiting: deque[HybridSplit]) -> list[HybridSplit]:
        """Takes the next splits of one reader: several small ones at a time."""
        size_of: Callable[[base.Split], int] = self._source.size_of
        most = max(1, len(waiting) // (ROUNDS_LEFT * self._context.current_parallelism()))
        taken = [waiting.popleft()]
        size_bytes = size_of(taken[0].split)
        while len(taken) < most and size_bytes + size_of(waiting[0].split) <= TOGETHER_BYTES:
            taken.append(waiting.popleft())
            size_bytes += size_of(taken[-1].split)
        return taken
