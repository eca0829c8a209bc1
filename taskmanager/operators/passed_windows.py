"""Which windows a stream has left behind, as far as its rows tell: a window that none of the last rows belong to.

    rows of window   7 7 7 8 8 8 8 8 │ after ``patience`` rows without one of window 7 it is passed
    a row of 7 again                 │ somebody was too early: patience grows fourfold, and halves with every watermark

What is passed may be sent on before the watermark says so: nothing is lost when rows come later, but there is one more partial for
each of their keys. So it leaves when it is complete as a rule, and neither a watermark nor a barrier finds all windows of
the last moments waiting.
"""

from __future__ import annotations

from collections import OrderedDict

MIN_PATIENCE_ROWS = 1 << 17
MAX_PATIENCE_ROWS = 1 << 40
_GROWTH = 4


class PassedWindows:
    """What it costs does not depend on how many windows there are."""

    def __init__(self) -> None:
        self.patience_rows = MIN_PATIENCE_ROWS
        self._rows = 0
        self._last: OrderedDict[int, int] = OrderedDict()
        """Rows before the last batch that had some of the window; the one that waits longest is first."""
        self._passed: set[int] = set()

    def seen(self, window: int) -> None:
        """The batch has rows of it."""
        if window in self._passed:
            self._passed.discard(window)
            self.patience_rows = min(_GROWTH * self.patience_rows, MAX_PATIENCE_ROWS)
        self._last[window] = self._rows
        self._last.move_to_end(window)

    def after(self, rows: int) -> list[int]:
        """The windows that are passed now, after a batch of so many rows."""
        self._rows += rows
        passed = []
        while len(self._last) > 1:
            window = next(iter(self._last))
            if self._rows - self._last[window] <= self.patience_rows:
                break
            del self._last[window]
            passed.append(window)
        self._passed.update(passed)
        return passed

    def forget(self, last: int | None) -> None:
        """The windows up to number ``last`` were sent on, by a watermark; ``None``: all were, for a barrier or at the end."""
        if last is None:
            self._last.clear()
            return
        for window in [window for window in self._last if window <= last]:
            del self._last[window]
        self._passed = {window for window in self._passed if window > last}
        self.patience_rows = max(MIN_PATIENCE_ROWS, self.patience_rows // 2)
