"""Answers that are repeated for a while, so that many clients that poll cost the JobManager no more than one.

Flink keeps the execution graph and the checkpoint statistics as long (``ExecutionGraphCache.java``); here the bytes of the
answer are kept, by path and query. Any request that changes something drops them all: who cancels a job sees it canceled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobmanager.rest.routes import Kept

MAX_ANSWERS = 256


class AnswerKeeper:
    def __init__(self, timeouts_ms: Mapping[Kept, int], now_ms: Callable[[], int]) -> None:
        self._timeouts_ms = timeouts_ms
        self._now_ms = now_ms
        self._answers: dict[str, tuple[int, bytes]] = {}

    def find(self, key: str) -> bytes | None:
        found = self._answers.get(key)
        return found[1] if found is not None and self._now_ms() < found[0] else None

    def keep(self, kept: Kept, key: str, body: bytes) -> None:
        timeout_ms = self._timeouts_ms.get(kept, 0)
        if timeout_ms <= 0:
            return
        now_ms = self._now_ms()
        if len(self._answers) >= MAX_ANSWERS:
            self._answers = {k: a for k, a in self._answers.items() if now_ms < a[0]}
        if len(self._answers) < MAX_ANSWERS:
            self._answers[key] = (now_ms + timeout_ms, body)

    def drop(self) -> None:
        self._answers.clear()
