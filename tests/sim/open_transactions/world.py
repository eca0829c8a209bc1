"""A job of which only the Kafka sink is real: values from a position on, checkpoints that complete or not, attempts that crash, come back
with another parallelism, and go on as if nothing had happened when they are long replaced.

Laws: OUTPUT, REPORTED and NOTHING_OPEN of ``tests.sim.laws``.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.sink_suite import share
from tests.sim.laws import Law, LawBroken
from tests.sim.open_transactions.kafka import SimulatedBroker, SimulatedKafka
from tests.unit.taskmanager.operators.harness import Running, spec, start
from tidegate.common.serialization import SimpleStringSchema
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.kafka.open_transactions.committer import TransactionCommitter
from tidegate.connectors.kafka.open_transactions.naming import Bundle, TransactionNamingStrategy
from tidegate.connectors.kafka.open_transactions.subtask_transactions import SubtaskTransactions, TransactionSettings
from tidegate.connectors.kafka.open_transactions.writer import OpenTransactionWriter
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema
from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.model.errors import TidegateError

STEPS, MOST_SUBTASKS, MOST_ROWS, MOST_STARTS = 40, 3, 4, 60
RETRIES = {"sink.committer.retries": "0"}
LOST = "records are lost"


class SimulatedSink(Sink):
    keeps_together = True

    def __init__(self, kafka: SimulatedKafka, strategy: TransactionNamingStrategy) -> None:
        words = KafkaRecordSerializationSchema.builder().set_topic("out")
        self._schema = words.set_value_serialization_schema(SimpleStringSchema()).build()
        self._settings = TransactionSettings("sim", strategy, "notes", 60_000, "kafka")
        self._kafka = kafka

    def make_committer(self, context: SinkContext) -> Committer:
        self._transactions = SubtaskTransactions(SimulatedBroker(self._kafka), self._settings, context)
        return TransactionCommitter(self._transactions)

    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: TypeInformation) -> SinkWriter:
        self._transactions.abort_lingering([Bundle.of(element) for element in state])
        return OpenTransactionWriter(self._transactions, self._schema, input_type, lambda records, first: None)


@dataclass
class _Checkpoint:
    checkpoint_id: int
    position: int
    snapshots: list[OperatorSnapshot]


@dataclass
class World:
    """One schedule, by its seed. ``times_out``: the broker may abort what is open."""

    seed: int
    times_out: bool = False
    position: int = 0
    told_lost: bool = False
    restarts: int = 0
    _next_id: int = 0
    _last: _Checkpoint | None = None
    _subtasks: list[Running] = field(default_factory=list)
    _zombies: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._strategy = self._random.choice(list(TransactionNamingStrategy))
        share_of_faults = self._random.choice([0.0, 0.02, 0.1])
        self.kafka = SimulatedKafka(random.Random(self.seed + 1), share_of_faults)
        self._attempts = 0

    def run(self) -> None:
        """Raises ``LawBroken``."""
        self._restart()
        kinds: list[Callable[[], None]] = [self._feed, self._feed, self._checkpoint, self._checkpoint, self._crash]
        kinds += [self._wake_a_zombie] + ([self.kafka.time_out] if self.times_out else [])
        for _ in range(STEPS):
            if self.told_lost:
                return  # until somebody decides
            self._try(self._random.choice(kinds))
        self._finish()

    def _finish(self) -> None:
        self.kafka.fault_share = 0.0
        self._zombies.clear()
        self._restart()
        if self.told_lost:
            return
        living = {str(one) for one in self.kafka.open_ids()}
        if living:
            raise LawBroken(Law.NOTHING_OPEN, f"nobody aborts {sorted(living)}")
        self._feed()
        self._checkpoint(completes=True, confirms=True)
        found, wanted = Counter(map(int, self.kafka.committed)), Counter(range(self.position))
        if found != wanted:
            raise LawBroken(Law.OUTPUT, f"lost {sorted(wanted - found)}, too many {sorted(found - wanted)}")

    def _try(self, step: Callable[[], None]) -> None:
        """A step that fails fails the attempt."""
        try:
            step()
        except TidegateError as error:
            self._note(error)
            if not self.told_lost:
                self._restart()

    def _note(self, error: TidegateError) -> None:
        if LOST not in error.message:
            return
        if not self.times_out:
            raise LawBroken(Law.REPORTED, f"nothing timed out: {error.message}")
        self.told_lost = True

    def _feed(self) -> None:
        rows = self._random.randint(1, MOST_ROWS)
        first, self.position = self.position, self.position + rows
        for value in range(first, self.position):
            self._subtasks[value % len(self._subtasks)].feed([str(value)])

    def _checkpoint(self, completes: bool | None = None, confirms: bool | None = None) -> None:
        self._next_id += 1
        taken = _Checkpoint(self._next_id, self.position, [one.snapshot(self._next_id) for one in self._subtasks])
        if not (self._random.random() < 0.7 if completes is None else completes):
            for one in self._subtasks:
                one.operator.notify_checkpoint_aborted(taken.checkpoint_id)
            return
        self._last = taken
        for one in self._subtasks:
            if confirms or self._random.random() < 0.8:  # else it dies before it hears of it, or hears of it later
                one.operator.notify_checkpoint_complete(taken.checkpoint_id)

    def _crash(self) -> None:
        self._restart()

    def _wake_a_zombie(self) -> None:
        """A process that was given up goes on; what becomes of it is nobody's business."""
        if not self._zombies:
            return
        zombie = self._random.choice(self._zombies)
        deeds: list[Callable[[], object]] = [
            lambda: zombie.feed(["-1"]),
            lambda: zombie.snapshot(self._next_id + 1),
            lambda: zombie.operator.notify_checkpoint_complete(self._last.checkpoint_id if self._last else 0),
            zombie.operator.close,
        ]
        with contextlib.suppress(TidegateError):
            self._random.choice(deeds)()

    def _restart(self) -> None:
        self._zombies = [*self._zombies, *self._subtasks][-2 * MOST_SUBTASKS :]
        self._subtasks = []
        self.restarts += 1
        parallelism = self._random.randint(1, MOST_SUBTASKS)
        for _ in range(MOST_STARTS):
            try:
                self._subtasks = self._started(parallelism)
                break
            except TidegateError as error:
                self._note(error)
                if self.told_lost:
                    return
        self.position = 0 if self._last is None else self._last.position

    def _started(self, parallelism: int) -> list[Running]:
        self._attempts += 1
        last = self._last
        order = list(range(parallelism))
        self._random.shuffle(order)  # they start in any order
        started: dict[int, Running] = {}
        for subtask in order:
            started[subtask] = start(
                spec(
                    "sink", input_types=(Types.STRING(),), options={"sink": SimulatedSink(self.kafka, self._strategy)}
                ),
                subtask=subtask,
                parallelism=parallelism,
                restored=None if last is None else share(last.snapshots, subtask, parallelism),
                restored_id=None if last is None else last.checkpoint_id,
                configuration=RETRIES,
                attempt=self._attempts,
            )
        return [started[subtask] for subtask in range(parallelism)]
