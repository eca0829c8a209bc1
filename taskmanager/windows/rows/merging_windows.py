"""The windows of one key that may merge (Flink: ``MergingWindowSet.java``).

    window ─▶ the window under which its contents are stored: its state window

Contents are not moved when a window grows: only this mapping changes. When several windows are merged, the contents of the others are merged into the state
window of the first.

Laws: the state windows differ from each other, and each is the original window from which its window has grown. The resulting windows do not depend on the
order in which windows were added (``TimeWindow``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidegate.functions.windows import MergingWindowAssigner
from tidegate.model.values import AssignedWindow, Record

OnMerge = Callable[[AssignedWindow, list[AssignedWindow], AssignedWindow, list[AssignedWindow]], None]
"""Called for merged windows: (the new window, the windows that were merged into it, its state window, the other state windows)."""


class MergingWindows:
    """The merged windows of one key, each with the window under which its state is stored (Flink: ``MergingWindowSet.java``)."""

    def __init__(
        self,
        assigner: MergingWindowAssigner[Record, AssignedWindow],
        mapping: Iterable[tuple[AssignedWindow, AssignedWindow]] = (),
    ) -> None:
        self._assigner = assigner
        self._mapping = dict(mapping)
        self.is_changed = False

    def pairs(self) -> list[tuple[AssignedWindow, AssignedWindow]]:
        """Returns (window, state window) of all windows."""
        return list(self._mapping.items())

    def state_window(self, window: AssignedWindow) -> AssignedWindow:
        """Returns the window that holds the state of ``window``; ``None`` if there is no such window."""
        return self._mapping.get(window)

    def retire(self, window: AssignedWindow) -> None:
        """Removes a window that is over."""
        del self._mapping[window]
        self.is_changed = True

    def add(self, window: AssignedWindow, on_merge: OnMerge) -> AssignedWindow:
        """Adds a window. Returns it, or the window into which it was merged. ``on_merge``: called when existing windows grow or are merged."""
        if window in self._mapping:
            return window
        report = _Report()
        self._assigner.merge_windows([*self._mapping, window], report)
        actual = window
        for merged, result in report.merges:
            old = [known for known in self._mapping if known in merged]
            if window in merged:
                actual = result
            if not old or old == [result]:
                continue  # it is alone, or lies within one that is there
            states = [self._mapping.pop(known) for known in old]
            self._mapping[result] = states[0]
            self.is_changed = True
            on_merge(result, old, states[0], states[1:])
        if actual not in self._mapping:
            self._mapping[actual] = actual
            self.is_changed = True
        return actual


class _Report:
    """Receives from the assigner which windows have to be merged."""

    def __init__(self) -> None:
        self.merges: list[tuple[set[AssignedWindow], AssignedWindow]] = []

    def merge(self, to_be_merged: Iterable[Record], merge_result: AssignedWindow) -> None:
        self.merges.append((set(to_be_merged), merge_result))
