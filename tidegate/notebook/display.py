"""Displays in a notebook that replace the output of a cell when their content changes."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

LEAST_PAUSE_S = 0.5
"""The least delay between two updates of a display, in seconds. Chosen, not measured: a browser with ten displays stays idle."""


class Handle(Protocol):
    """A display of IPython (``IPython.display.DisplayHandle``)."""

    def update(self, obj: Mapping[str, str], *, raw: bool) -> None:
        """Replaces what the display shows."""


def kernel_shell() -> Any | None:
    """Returns the IPython shell of this process; ``None`` where it is not the kernel of a notebook."""
    module = sys.modules.get("IPython")
    if module is None:
        return None
    shell = module.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


def show_html(html: str, text: str) -> Handle:
    """Displays HTML below the current cell, or ``text`` in a frontend without HTML, and returns the display."""
    display: Callable[..., Handle] = importlib.import_module("IPython.display").display
    return display(_bundle(html, text), raw=True, display_id=True)


def _bundle(html: str, text: str) -> dict[str, str]:
    return {"text/html": html, "text/plain": text}


class LiveDisplay:
    """The output of a cell that is replaced at most once in ``LEAST_PAUSE_S``. ``clock``: seconds, monotonic."""

    def __init__(
        self, show: Callable[[str, str], Handle] = show_html, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._clock = clock
        self._handle: Handle | None = None
        self._shown: tuple[str, str] | None = None
        self._shown_at = 0.0

    def is_due(self) -> bool:
        """Tells whether an update would be displayed now."""
        return self._handle is None or self._clock() - self._shown_at >= LEAST_PAUSE_S

    def update(self, html: str, text: str, *, is_last: bool = False) -> None:
        """Replaces the displayed HTML. An early update is dropped, unless it ``is_last``."""
        found = (html, text)
        if found == self._shown or not (is_last or self.is_due()):
            return
        self._shown, self._shown_at = found, self._clock()
        if self._handle is None:
            self._handle = self._show(html, text)
        else:
            self._handle.update(_bundle(html, text), raw=True)
