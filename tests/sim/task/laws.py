"""Checkers of the laws of a checkpoint (ARCHITECTURE, section 5) on what the simulated subtasks do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn


@dataclass(frozen=True, order=True)
class Record:
    source: str
    number: int

    @property
    def timestamp_ms(self) -> int:
        return 10 * self.number


class LawBroken(AssertionError):
    """``law``: its short name."""

    def __init__(self, law: str, text: str) -> None:
        super().__init__(f"{law}: {text}")
        self.law = law


@dataclass(frozen=True)
class Frozen:
    position: int
    seen: frozenset[Record]


@dataclass
class Laws:
    exactly_once: bool
    completed_ids: set[int] = field(default_factory=set)
    _frozen: dict[tuple[str, int], Frozen] = field(default_factory=dict)
    _votes: dict[tuple[str, int], str] = field(default_factory=dict)
    _aborted: set[tuple[str, int]] = field(default_factory=set)
    _final: dict[str, Frozen] = field(default_factory=dict)
    _commits: dict[str, int] = field(default_factory=dict)

    def broken(self, law: str, text: str) -> NoReturn:
        raise LawBroken(law, text)

    def record_processed(self, task: str, record: Record, watermark_ms: int | None) -> None:
        if watermark_ms is not None and record.timestamp_ms < watermark_ms:
            self.broken("watermark", f"{task} got {record} when its watermark had been {watermark_ms}")

    def frozen(self, task: str, checkpoint_id: int, position: int, seen: frozenset[Record]) -> None:
        if (task, checkpoint_id) in self._frozen:
            self.broken("law 3", f"{task} took its snapshot of {checkpoint_id} twice")
        self._frozen[task, checkpoint_id] = Frozen(position, seen)

    def voted(self, task: str, checkpoint_id: int, vote: str) -> None:
        before = self._votes.setdefault((task, checkpoint_id), vote)
        count = (task, checkpoint_id, "count")
        if before is not vote or count in self._seen_votes:
            self.broken("law 3", f"{task} {before} {checkpoint_id}, and then {vote} it")
        self._seen_votes.add(count)
        if vote == "acknowledged" and (task, checkpoint_id) in self._aborted:
            self.broken("law 3", f"{task} acknowledged {checkpoint_id} after it was told of its abort")
        if vote == "acknowledged" and (task, checkpoint_id) not in self._frozen:
            self.broken("law 3", f"{task} acknowledged {checkpoint_id} without a snapshot")

    _seen_votes: set[tuple[str, int, str]] = field(default_factory=set)
    _in_flight: dict[tuple[str, int], list[Record]] = field(default_factory=dict)

    def persisted(self, consumer: str, checkpoint_id: int, records: list[Record]) -> None:
        """In flight to ``consumer``, by its own word or its producer's."""
        self._in_flight.setdefault((consumer, checkpoint_id), []).extend(records)

    def told_aborted(self, task: str, checkpoint_id: int) -> None:
        self._aborted.add((task, checkpoint_id))

    def committed(self, task: str, checkpoint_id: int) -> None:
        if checkpoint_id not in self.completed_ids:
            self.broken("law 5", f"{task} committed {checkpoint_id}, which is not complete")
        if checkpoint_id <= self._commits.get(task, 0):
            self.broken("law 5", f"{task} committed {checkpoint_id} after {self._commits[task]}")
        self._commits[task] = checkpoint_id

    def finished(self, task: str, position: int, seen: frozenset[Record]) -> None:
        self._final[task] = Frozen(position, seen)

    def completed(self, checkpoint_id: int, running: set[str]) -> None:
        """All votes are in: what was read before the barrier, and nothing else, is in every layer."""
        self.completed_ids.add(checkpoint_id)
        states = {task: self._frozen[task, checkpoint_id] for task in running}
        states.update({task: final for task, final in self._final.items() if task not in running})
        before = {Record(t, i) for t, state in states.items() if t.startswith("source") for i in range(state.position)}
        on_the_way: set[Record] = set()
        for layer in ("middle", "sink"):
            found = [r for t, state in states.items() if t.startswith(layer) for r in state.seen]
            found += [
                r for (t, n), rs in self._in_flight.items() if n == checkpoint_id and t.startswith(layer) for r in rs
            ]
            seen = set(found) | on_the_way
            if len(seen) < len(found) + len(on_the_way):
                self.broken(
                    "twice",
                    f"checkpoint {checkpoint_id}: a record is in a {layer} and in flight to it, or twice in flight",
                )
            on_the_way |= {
                r for (t, n), rs in self._in_flight.items() if n == checkpoint_id and t.startswith(layer) for r in rs
            }
            if missing := before - seen:
                self.broken(
                    "law 2", f"checkpoint {checkpoint_id}: {min(missing)} was read before it and is in no {layer}"
                )
            if self.exactly_once and (early := seen - before):
                self.broken("law 2", f"checkpoint {checkpoint_id}: {min(early)} was read after it and is in a {layer}")

    def check_end(self, sinks: dict[str, set[Record]], emitted: set[Record]) -> None:
        arrived: set[Record] = set().union(*sinks.values())
        if arrived != emitted:
            self.broken("loss", f"{len(emitted - arrived)} records never reached a sink")
        if not self.completed_ids:
            self.broken("liveness", "no checkpoint was ever completed")
