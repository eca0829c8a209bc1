"""The columnar consumer: sends fetch requests over kafka-python's connections.

    leader ◀── fetch ── positions                          one fetch is in the hands of each leader
      │                                                    the next one goes out before this answer is decoded:
      └── answer ─▶ heads of its batches ─▶ next positions   where it begins stands in the heads of the record batches
                └─▶ decode ─▶ records, by partition        so at most two answers of a leader are in memory

Laws. A position moves only with an answer, so what is dropped (a broker that went away, a partition that was removed) is
simply fetched again. A broker that is down, or has stopped leading, is waited for; what cannot become better is raised.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.connectors.kafka.client import library, typed_error
from tidegate.connectors.kafka.columnar.connection import Connections, is_soon
from tidegate.connectors.kafka.columnar.fetch_requests import (
    Answered,
    FetchLimits,
    answered,
    end_of,
    fetch_request,
    offsets_request,
)
from tidegate.connectors.kafka.columnar.leaders import Leaders
from tidegate.connectors.kafka.consumer_port import (
    FETCH_WAIT_S,
    ConsumerPort,
    MessageConsumer,
    Place,
    PollResult,
    out_of_range,
)
from tidegate.connectors.kafka.partition_records import PartitionRecords
from tidegate.connectors.kafka.record_batches import decode
from tidegate.connectors.kafka.shared_client import SharedClient
from tidegate.model.errors import CorruptData

ANSWER_LIMIT_S = 30.0
"""How long a broker may take to answer a fetch, in seconds; the time between polls does not count."""
_NEVER_S = 24 * 3600.0
"""A time longer than any wait, in seconds."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class _PendingFetch:
    future: Any
    positions: dict[Place, int]
    lists_offsets: bool
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Found:
    answered: Answered
    begin: int
    end: int


class ColumnarConsumer(ConsumerPort):
    """Consumes partitions by column. Records in formats that it cannot decode are left to librdkafka's consumer."""

    tells_topic_ids = True

    def __init__(
        self,
        shared: SharedClient,
        servers: str,
        properties: Mapping[str, str],
        isolation: str,
        *,
        with_keys: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared = shared
        self._servers = servers
        self._with_keys = with_keys
        self._committed_only = isolation != "read_uncommitted"
        self._limits = FetchLimits.of(properties)
        self._clock = clock
        self._connections = Connections(servers, properties)
        self._leaders = Leaders(self._connections, servers, clock)
        self._at: dict[Place, int] = {}
        self._pending: dict[int, _PendingFetch] = {}
        self._ends: dict[Place, int] = {}
        """Behind the last records of partitions, as answers said since the last take."""
        self._old_formats = False
        self._instead: MessageConsumer | None = None

    def add(self, positions: Mapping[Place, int]) -> None:
        if self._instead is not None:
            self._instead.add(positions)
        self._at.update(positions)

    def remove(self, places: Iterable[Place]) -> None:
        gone = list(places)
        if self._instead is not None:
            self._instead.remove(gone)
        for place in gone:
            self._at.pop(place, None)

    def close(self) -> None:
        self._connections.close()

    def take(self) -> PollResult:
        if self._old_formats:
            self._go_by_messages()
        if self._instead is not None:
            return self._instead.take()
        self._shared.serve()
        self._leaders.look(self._at)
        self._ask()
        self._wait()
        found = self._answers()
        self._ask()
        if found:
            self._connections.flush()
        return self._decoded(found)

    def _ask(self) -> None:
        by_leader: dict[int, dict[Place, int]] = {}
        for place, offset in self._at.items():
            leader = self._leaders.of(place)
            if leader is not None and leader not in self._pending:
                by_leader.setdefault(leader, {})[place] = offset
        for leader, positions in by_leader.items():
            if self._connections.is_paused(leader):
                continue
            logical = {place: offset for place, offset in positions.items() if offset < 0}
            if logical:
                request = offsets_request(logical, committed_only=self._committed_only)
            else:
                request = fetch_request(
                    positions, self._limits, self._leaders.topic_id, committed_only=self._committed_only
                )
            # what lies in the socket while the subtask does not take more is no fault of the broker
            future = self._connections.send(leader, request, _NEVER_S)
            self._pending[leader] = _PendingFetch(future, logical or positions, bool(logical))

    def _wait(self) -> None:
        begins = self._clock()
        self._connections.wait(self._has_answer, FETCH_WAIT_S)
        waited_s = self._clock() - begins
        for leader, fetch in list(self._pending.items()):
            fetch.waited_s += waited_s
            if fetch.waited_s > ANSWER_LIMIT_S and not fetch.future.is_done:
                _LOG.info(
                    "a broker of Kafka at %s did not answer a fetch request, so its connection is closed", self._servers
                )
                self._connections.drop(leader)
                self._leaders.doubt(fetch.positions)
                del self._pending[leader]

    def _has_answer(self) -> bool:
        return self._leaders.has_answer() or any(fetch.future.is_done for fetch in self._pending.values())

    def _answers(self) -> list[_Found]:
        """Returns what all leaders have answered, and advances positions. Raises ``CorruptData``, ``ExternalError``."""
        found: list[_Found] = []
        for leader, fetch in [(leader, fetch) for leader, fetch in self._pending.items() if fetch.future.is_done]:
            del self._pending[leader]
            if fetch.future.exception is not None:
                self._leaders.doubt(fetch.positions)
            elif fetch.lists_offsets:
                self._listed(fetch)
            else:
                for one in answered(fetch.future.value, self._leaders.topic_named):
                    found += self._moved(one, fetch.positions[one.place])
        return found

    def _listed(self, fetch: _PendingFetch) -> None:
        for topic in fetch.future.value.topics:
            for one in topic.partitions:
                place = topic.name, one.partition_index
                if one.error_code:
                    self._refused(place, one.error_code)
                elif self._at.get(place) == fetch.positions[place]:
                    self._at[place] = one.offset

    def _moved(self, one: Answered, begin: int) -> Sequence[_Found]:
        """Returns the new record batches of a partition's answer, if it is still wanted from that offset."""
        if self._at.get(one.place) != begin:
            return ()
        if one.error_code:
            self._refused(one.place, one.error_code)
            return ()
        self._ends[one.place] = one.end
        end = end_of(one.content, begin)
        if end is None:
            self._old_formats = True
            return ()
        if end == begin:
            return ()
        # to the end of the line: a broker fills its answer in the order of the request
        del self._at[one.place]
        self._at[one.place] = end
        return (_Found(one, begin, end),)

    def _refused(self, place: Place, code: int) -> None:
        error = library().KafkaError(code)
        if code == library().KafkaError.OFFSET_OUT_OF_RANGE:
            with self._shared.used() as client:
                raise out_of_range(client, place, self._at[place], error)
        if not is_soon(code):
            raise typed_error(error, f"read topic {place[0]!r}", self._servers)
        self._leaders.doubt([place])

    def _decoded(self, found: list[_Found]) -> PollResult:
        """Decodes fetch responses of brokers to records. Raises ``CorruptData``."""
        arrived = PollResult(ends=self._ends, topic_ids=self._leaders.new_topic_ids())
        self._ends = {}
        for one in found:
            what = one.answered
            try:
                columns, end = decode(
                    what.content,
                    one.begin,
                    what.aborted,
                    committed_only=self._committed_only,
                    with_keys=self._with_keys,
                )
            except CorruptData as error:
                raise CorruptData(f"partition {what.place[1]} of topic {what.place[0]!r}: {error.message}") from error
            assert end == one.end, f"the heads of the batches tell {one.end}, their contents {end}"
            if columns is not None:
                arrived.records.append(
                    PartitionRecords(*what.place, columns.values, columns.offsets, columns.timestamps, columns.keys)
                )
            arrived.reached.append((what.place, one.end))
        return arrived

    def _go_by_messages(self) -> None:
        _LOG.info(
            "Kafka at %s keeps records in a format older than version 0.11: they are read one by one, which is slower",
            self._servers,
        )
        self._old_formats = False
        self._pending.clear()
        self._connections.close()
        self._instead = MessageConsumer(self._shared, self._servers, with_keys=self._with_keys)
        self._instead.add(self._at)
