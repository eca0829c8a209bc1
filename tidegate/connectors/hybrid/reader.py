"""The reader of a hybrid source: reads the current part with the reader of that part's own source.

    Switch ─▶ the part's reader opens with the splits that it has ─▶ ... ─▶ everything emitted ─▶ PartRead ─▶ (the next) Switch

Laws. The state is that of the part that is read, its splits marked with the part; what comes of a part before its Switch waits, and is in the
state too. Event time never begins anew: the splits of a part that has ended retire when the next one opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidegate.connectors import base
from tidegate.connectors.hybrid.parts import HybridSplit, PartRead, Switch
from tidegate.connectors.source.enumerator_host import decoded_split, encoded_split
from tidegate.connectors.source.protocol import EncodedSplit
from tidegate.connectors.source.serializers import PickleSerializer
from tidegate.connectors.source.splits import SourceSplit
from tidegate.model.errors import InternalError
from tidegate.model.values import UserObject
from tidegate.records.batch import Batch

SPLITS: PickleSerializer[SourceSplit] = PickleSerializer()


def hybrid_split(split: base.Split) -> HybridSplit:
    """Returns the hybrid split that the enumerator assigned."""
    found = decoded_split(SPLITS, EncodedSplit(split.split_id, split.payload))
    assert isinstance(found, HybridSplit)
    return found


class HybridReader(base.SourceReader):
    """Reads the parts of a hybrid source one after the other; has no part until its enumerator assigns one."""

    def __init__(self, context: base.ReaderContext) -> None:
        self._context = context
        self._waiting: dict[str, base.SplitState] = {}
        """Splits of parts that are not open, as they come from a checkpoint or the enumerator."""
        self._open: Switch | None = None
        self._reader: base.SourceReader | None = None
        self._known: dict[str, HybridSplit] = {}
        """The assigned splits of the part that is open, by their own ids."""
        self._states: list[base.SplitState] = []
        """The last snapshot of the part's reader."""
        self._retired: set[str] = set()
        self._is_told = False

    def open(self, states: Sequence[base.SplitState]) -> None:
        self._waiting = {state.split.split_id: state for state in states}

    def handle_source_event(self, event: UserObject) -> None:
        if not isinstance(event, Switch):
            raise InternalError(
                f"the enumerator of a hybrid source sent an event of the class {type(event).__name__}, which its readers do not know"
            )
        if self._open is not None and event.part <= self._open.part:
            return  # it was in the checkpoint, and came again when this reader registered
        self._leave()
        self._open, self._is_told = event, False
        waiting = [(hybrid_split(state.split), state) for state in self._waiting.values()]
        states = [replace(state, split=split.split) for split, state in waiting if split.part == event.part]
        self._known = {split.split.split_id: split for split, _ in waiting if split.part == event.part}
        self._waiting.clear()
        times = None if self._context.times is None else _Times(self._context.times, event.part)
        if times is not None:
            for state in states:
                if not state.done:
                    times.assigned(state.split.split_id)
        asks = self._context.request_split if event.is_asked else None
        self._reader = event.source.make_reader(
            replace(self._context, request_split=asks, send_source_event=None, times=times)
        )
        self._reader.open(states)

    def add_splits(self, splits: Sequence[base.Split]) -> None:
        added = []
        for split in splits:
            found = hybrid_split(split)
            if self._open is None or found.part > self._open.part:
                self._waiting[split.split_id] = base.SplitState(split)
            else:
                self._known[found.split.split_id] = found
                added.append(found.split)
        if added:
            assert self._reader is not None
            self._reader.add_splits(added)

    def no_more_splits(self) -> None:
        if self._reader is not None:  # otherwise it is asked again
            self._reader.no_more_splits()

    def poll(self) -> base.Polled | None:
        reader, switch = self._reader, self._open
        if reader is None or switch is None:
            return None
        polled = reader.poll()
        if polled is not None:
            polled.split_id = _marked(switch.part, polled.split_id)
        elif not self._is_told and reader.is_finished():
            self._is_told = True
            assert self._context.send_source_event is not None
            self._context.send_source_event(PartRead(switch.part))
        return polled

    def advance(self, records: int) -> None:
        assert self._reader is not None
        self._reader.advance(records)

    def is_finished(self) -> bool:
        switch, reader = self._open, self._reader
        return switch is not None and switch.is_last and reader is not None and reader.is_finished()

    def snapshot_state(self) -> list[base.SplitState]:
        self._states = [] if self._reader is None else self._reader.snapshot_state()
        return [*self._waiting.values(), *(self._encoded(state) for state in self._states)]

    def finished_splits(self) -> set[str]:
        retired, self._retired = self._retired, set()
        return retired | self._marked(() if self._reader is None else self._reader.finished_splits())

    def note_snapshot(self, checkpoint_id: int, states: Sequence[base.SplitState]) -> None:
        if self._reader is not None:
            self._reader.note_snapshot(checkpoint_id, self._states)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._reader is not None:
            self._reader.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._reader is not None:
            self._reader.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _leave(self) -> None:
        """Closes the reader of the current part, whose splits have all ended."""
        if self._reader is not None:
            self._retired |= self._marked(state.split.split_id for state in self._reader.snapshot_state())
            self._reader.close()

    def _encoded(self, state: base.SplitState) -> base.SplitState:
        split = self._known.get(state.split.split_id)
        if split is None:  # the reader has found it itself
            assert self._open is not None
            split = self._known[state.split.split_id] = HybridSplit(self._open.part, 0, state.split, self._open.source)
        encoded = encoded_split(SPLITS, split)
        return replace(state, split=base.Split(encoded.split_id, encoded.payload))

    def _marked(self, split_ids: Iterable[str]) -> set[str]:
        return set() if self._open is None else {_marked(self._open.part, split_id) for split_id in split_ids}


class _Times:
    """Forwards event times of splits with the part in their ids, since splits of two parts may have the same id."""

    def __init__(self, times: base.SplitTimes, part: int) -> None:
        self._times = times
        self._part = part

    def assigned(self, split_id: str) -> None:
        self._times.assigned(_marked(self._part, split_id))

    def expected(self, split_id: str, first: Batch | None = None) -> int | None:
        return self._times.expected(_marked(self._part, split_id), first)


def _marked(part: int, split_id: str) -> str:
    return f"{part}/{split_id}"
