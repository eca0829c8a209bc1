"""The client of queryable state (Flink: ``QueryableStateClient.java``).

    key ─▶ key group ─▶ (JobManager: who has it) ─▶ TaskManager ─▶ subtask, between two slices        the live value
                                     └─▶ files of the last completed checkpoint                       the consistent value

The live value is read uncommitted: a failure may take it back. A question whose subtasks are away, are asked for too much or have moved is asked
again until its time is over; then one error says why.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import grpc
import pyarrow as pa

from tidegate.aio.admission import call_metadata, identified
from tidegate.aio.rpc import open_blocking_channel
from tidegate.aio.transport import PLAIN, Transport
from tidegate.aio.transports import transport_of
from tidegate.common.typeinfo import TypeInformation
from tidegate.functions.state import AggregatingStateDescriptor, StateDescriptor
from tidegate.model.configuration import Configuration
from tidegate.model.errors import (
    ErrorInfo,
    Misuse,
    SchemaMismatch,
    StateNotServed,
    StorageError,
    TidegateError,
    Unreachable,
)
from tidegate.model.ids import AttemptId
from tidegate.model.kv_state import KvStateInfo, KvStateLocation, KvStatePlace
from tidegate.model.states import JobState
from tidegate.model.values import Key, StateValue
from tidegate.pb import common_pb2, taskmanager_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.taskmanager_pb2_grpc import TaskManagerKvStateStub
from tidegate.queryablestate.consistent import CheckpointedValues
from tidegate.queryablestate.keys import RequestedKeys, key_of_text
from tidegate.queryablestate.location import JobManagerLocations, Locations, error_of_call
from tidegate.records.pickling import foreign_pickles
from tidegate.records.record_codec import decode_column
from tidegate.records.type_document import types_from_json
from tidegate.wire.convert import error_from_pb
from tidegate.wire.convert_kv_state import location_from_pb
from tidegate.wire.kv_state_columns import values_of, write_keys

__all__ = ["KvStateValues", "QueryableStateClient"]

TIMEOUT_S = 10.0
"""The default timeout of a query, in seconds: Flink's default of ``pekko.ask.timeout``, within which its client proxy answers."""
LEAST_S = 0.5
"""The least timeout of the last attempt, in seconds, so that it fails for a reason of the state's. Chosen, not measured."""
REQUEST_KEYS = 1_000
"""The most keys of one request: a quarter of what a TaskManager accepts at once for a subtask. Chosen, not measured."""
_PAUSES_S = (0.02, 0.05, 0.1, 0.25)
"""The delays between attempts, the last one repeatedly, in seconds. Chosen: a restart takes about a second."""

HOW_TO_TRUST = "give the state a declared type, or ask with QueryableStateClient(..., trusts_pickles=True) if you trust the cluster"

REGISTERED_WITHIN_S = 2.0
"""How long subtasks may take to register their states at a start and after a change of the JobManager, in seconds. Chosen, not measured: they need
tenths of a second."""

_Again = (StateNotServed, Unreachable, StorageError)
"""Errors that may be temporary. Files of a checkpoint vanish when the next one replaces it."""


class _NoSuchName(StateNotServed):
    """The error of a running job with other queryable states: the subtasks of this one may not have registered it yet."""


@dataclass(frozen=True, slots=True)
class KvStateValues:
    """The values of the requested keys. ``checkpoint_id``: of the checkpoint with these values; ``None`` for live ones."""

    count: int
    rows: pa.Table
    """The columns ``row`` (the position of a key with a value among the requested keys) and ``value``."""
    value_type: TypeInformation
    checkpoint_id: int | None = None
    trusts_pickles: bool = False

    def values(self) -> list[StateValue]:
        """Returns one value for each key, in their order; ``None`` where a key has none. For an aggregating state it is the accumulator. Raises
        ``Misuse`` for an object of a class in a state without a declared type, unless the client trusts pickles: unpickling executes code of the
        server's choice."""
        found: list[StateValue] = [None] * self.count
        places = self.rows.column("row").to_pylist()
        chunks = self.rows.column("value").chunks
        with foreign_pickles(HOW_TO_TRUST, trusted=self.trusts_pickles):
            decoded = [value for chunk in chunks for value in decode_column(self.value_type, chunk)]
        for row, value in zip(places, decoded, strict=True):
            found[row] = value
        return found


@dataclass(frozen=True, slots=True)
class _Known:
    location: KvStateLocation
    key_type: TypeInformation
    value_type: TypeInformation
    checkpoint_id: int
    checkpoint_path: str


@dataclass(frozen=True, slots=True)
class _Question:
    job_id: str
    name: str
    key: Key
    descriptor: StateDescriptor | None
    answer: Future[StateValue]


class QueryableStateClient:
    """Queries the state of jobs: asks the JobManager for the state's location, and TaskManagers for values. Thread-safe; may be used as a context manager."""

    def __init__(
        self,
        remote_hostname: str = "localhost",
        remote_port: int = 6123,
        options: Mapping[str, str] | None = None,
        *,
        trusts_pickles: bool = False,
    ) -> None:
        """Creates a client of the JobManager at the address. ``options``: those of the cluster, such as ``security.ssl.internal.*``. ``trusts_pickles``:
        whether objects of classes are unpickled, which lets the answering process run code here. Raises ``ConfigurationError``.
        """
        self._trusts_pickles = trusts_pickles
        configuration = Configuration.from_strings(options or {})
        self._transport, self._metadata = transport_of(configuration), call_metadata(configuration)
        self._locations: Locations = JobManagerLocations(
            f"{remote_hostname}:{remote_port}", self._transport, self._metadata
        )
        self._known: dict[tuple[str, str], _Known] = {}
        self._servers: dict[str, tuple[grpc.Channel, TaskManagerKvStateStub]] = {}
        self._checkpointed = CheckpointedValues()
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._asking: threading.Thread | None = None

    @staticmethod
    def _over(
        locations: Locations, transport: Transport = PLAIN, metadata: tuple[tuple[str, str], ...] = ()
    ) -> QueryableStateClient:
        """Creates a client on an existing connection to the JobManager."""
        client = QueryableStateClient()
        if isinstance(client._locations, JobManagerLocations):
            client._locations.close()  # it was not used
        client._locations, client._transport, client._metadata = locations, transport, metadata
        return client

    def __enter__(self) -> QueryableStateClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown_and_wait()

    def get_kv_state(
        self,
        job_id: str,
        queryable_state_name: str,
        key: Key,
        key_type_info: TypeInformation | None = None,
        state_descriptor: StateDescriptor | None = None,
    ) -> Future[StateValue]:
        """Returns a future of the live value of one key, ``None`` when the key has none. Concurrent queries are sent together.

        ``key_type_info`` and the type of ``state_descriptor`` are not needed, since the job knows them; the descriptor
        of an aggregating state makes its result of the accumulator. The future raises as ``get_kv_states`` does.
        """
        del key_type_info
        question = _Question(job_id, queryable_state_name, key, state_descriptor, Future())
        with self._lock:
            if self._closed.is_set():
                raise Misuse("this QueryableStateClient was shut down; make another one")
            if self._asking is None:
                self._asking = threading.Thread(target=self._ask_all, name="queryable state", daemon=True)
                self._asking.start()
            self._questions.put(question)
        return question.answer

    def get_kv_states(
        self,
        job_id: str,
        queryable_state_name: str,
        keys: Sequence[Key],
        *,
        consistent: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> KvStateValues:
        """Returns the values of keys: live ones, or those of the last completed checkpoint (``consistent``).

        Raises ``UnknownJob``; ``SchemaMismatch`` for a key of another type; ``StateNotServed`` when the job has no such
        queryable state, restarts, or does not answer within ``timeout_s`` seconds; ``Misuse`` for a job that is over,
        or that has had other states and not this one for two seconds; ``Unreachable``.
        """
        return self._look_up(job_id, queryable_state_name, lambda _: keys, consistent, timeout_s)

    def get_by_text(
        self,
        job_id: str,
        queryable_state_name: str,
        key: str,
        *,
        consistent: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> KvStateValues:
        """Returns the value of one key that is given as a text, like ``get_kv_states``. Raises ``Misuse`` also for a text that is not a key."""

        def parsed(key_type: TypeInformation) -> list[Key]:
            return [key_of_text(key, key_type, queryable_state_name)]

        return self._look_up(job_id, queryable_state_name, parsed, consistent, timeout_s)

    def shutdown_and_wait(self) -> None:
        """Closes the connections. Pending queries fail with ``Misuse``."""
        with self._lock:
            self._closed.set()
            asking, self._asking = self._asking, None
        if asking is not None:
            self._questions.put(None)
            asking.join()
        for channel, _ in self._servers.values():
            channel.close()
        if isinstance(self._locations, JobManagerLocations):
            self._locations.close()

    # ---- one question ------------------------------------------------------------------------------------------------

    def _look_up(
        self,
        job_id: str,
        name: str,
        keys_for: Callable[[TypeInformation], Sequence[Key]],
        consistent: bool,
        timeout_s: float,
    ) -> KvStateValues:
        until_s = time.monotonic() + timeout_s
        tries = 0
        sure_at_s = time.monotonic() + REGISTERED_WITHIN_S
        while True:
            try:
                known = self._find(job_id, name, afresh=consistent)
                keys = keys_for(known.key_type)
                requested = RequestedKeys.of(keys, known.key_type, known.location.info.max_parallelism, name)
                if consistent:
                    return self._from_checkpoint(known, requested)
                return KvStateValues(
                    len(keys), self._live(known, requested, until_s), known.value_type, None, self._trusts_pickles
                )
            except _Again as error:
                if not isinstance(error, _NoSuchName):
                    sure_at_s = time.monotonic() + REGISTERED_WITHIN_S
                elif time.monotonic() >= sure_at_s:
                    raise Misuse(error.message) from None
                self._known.pop((job_id, name), None)
                pause_s = _PAUSES_S[min(tries, len(_PAUSES_S) - 1)]
                tries += 1
                if time.monotonic() + pause_s >= until_s or self._closed.wait(pause_s):
                    raise self._last_error(job_id, error, timeout_s) from None

    def _find(self, job_id: str, name: str, *, afresh: bool) -> _Known:
        """Returns the location of a state; ``afresh``: not the cached one, to get the latest checkpoint."""
        known = self._known.get((job_id, name))
        if known is not None and not afresh:
            return known
        answer = self._locations.kv_state_location(job_id, name)
        location = location_from_pb(answer)
        self._refuse_what_ended(job_id, answer)
        if location is None:
            others = ", ".join(map(repr, answer.names))
            text = f"job {job_id} has no queryable state {name!r}; " + (
                f"it has {others}"
                if others
                else "a function registers it with set_queryable, and its TaskManagers need queryable-state.enable: true"
            )
            raise _NoSuchName(text) if others and answer.job_state == JobState.RUNNING.value else StateNotServed(text)
        key_type, value_type = _types_of(location.info)
        found = _Known(location, key_type, value_type, answer.checkpoint_id, answer.checkpoint_path)
        self._known[job_id, name] = found
        return found

    def _refuse_what_ended(self, job_id: str, answer: pb.KvStateLocationAnswer) -> None:
        state = JobState(answer.job_state)
        if state.is_terminal:
            path = answer.checkpoint_path
            hint = f"; `tidegate state show {path}` reads its last checkpoint" if path else ""
            raise Misuse(f"job {job_id} is {state.value} and serves no state{hint}")

    def _live(self, known: _Known, requested: RequestedKeys, until_s: float) -> pa.Table:
        places, name = known.location.by_group(), known.location.info.name
        of_attempt: dict[AttemptId, tuple[KvStatePlace, list[int]]] = {}
        for row, group in enumerate(requested.groups):
            place = places.get(group)
            if place is None:
                raise StateNotServed(
                    f"no subtask serves key group {group} of state '{name}' just now; ask again when the job runs"
                )
            of_attempt.setdefault(place.attempt, (place, []))[1].append(row)
        found = [
            self._ask_server(place, name, requested, rows[start : start + REQUEST_KEYS], until_s)
            for place, rows in of_attempt.values()
            for start in range(0, len(rows), REQUEST_KEYS)
        ]
        return pa.concat_tables(found)

    def _ask_server(
        self, place: KvStatePlace, name: str, requested: RequestedKeys, rows: Sequence[int], until_s: float
    ) -> pa.Table:
        left_s = max(LEAST_S, until_s - time.monotonic())
        request = taskmanager_pb2.GetKvStateRequest(
            attempt=str(place.attempt),
            name=name,
            count=len(rows),
            keys=write_keys(requested.column.take(pa.array(rows, pa.int32())), requested.field),
            wait_ms=int(left_s * 1000),
        )
        try:
            answer: common_pb2.KvStateAnswer = self._server(place.address).GetKvState(request, timeout=left_s + 1)
        except grpc.RpcError as error:
            raise _as_away(error_of_call(error, f"the KvState server at {place.address}")) from None
        if answer.HasField("error"):
            raise error_from_pb(answer.error).to_exception()
        batch = values_of(answer.values)
        at = pa.array([rows[row] for row in batch.column(0).to_pylist()], pa.int32())
        return pa.Table.from_arrays([at, batch.column(1)], schema=batch.schema)

    def _from_checkpoint(self, known: _Known, requested: RequestedKeys) -> KvStateValues:
        if not known.checkpoint_id:
            raise StateNotServed("the job has no completed checkpoint yet")
        if not known.checkpoint_path:
            raise Misuse(
                "the job's checkpoints are in the JobManager's memory, which clients cannot read: set execution.checkpointing.dir"
            )
        with self._lock, foreign_pickles(HOW_TO_TRUST, trusted=self._trusts_pickles):
            table = self._checkpointed.look_up(known.checkpoint_path, known.location.info, requested, known.key_type)
        return KvStateValues(len(requested.keys), table, known.value_type, known.checkpoint_id, self._trusts_pickles)

    def _last_error(self, job_id: str, error: TidegateError, timeout_s: float) -> TidegateError:
        if isinstance(error, Unreachable):
            return error
        try:
            state = self._locations.kv_state_location(job_id, "").job_state
        except TidegateError:
            state = ""
        if state and state != JobState.RUNNING.value:
            return StateNotServed(
                f"job {job_id} is {state} and serves no live state: ask again when it runs, or for the consistent value "
                f"of its last checkpoint ({error.message})"
            )
        info = ErrorInfo.of(error)
        return StateNotServed(f"{info.message} (asked for {timeout_s:g} s)")

    def _server(self, address: str) -> TaskManagerKvStateStub:
        with self._lock:
            if address not in self._servers:
                channel = open_blocking_channel(address, self._transport)
                self._servers[address] = (channel, TaskManagerKvStateStub(identified(channel, self._metadata)))
            return self._servers[address][1]

    # ---- questions that are asked at the same time ---------------------------------------------------------------------

    def _ask_all(self) -> None:
        while (first := self._questions.get()) is not None:
            together: dict[tuple[str, str], list[_Question]] = {}
            question: _Question | None = first
            while question is not None:
                together.setdefault((question.job_id, question.name), []).append(question)
                question = None if self._questions.empty() else self._questions.get()
            for questions in together.values():
                self._ask_together(questions)

    def _ask_together(self, questions: list[_Question]) -> None:
        first = questions[0]
        try:
            found = self.get_kv_states(first.job_id, first.name, [question.key for question in questions])
        except (SchemaMismatch, Misuse) as error:
            if len(questions) == 1:
                first.answer.set_exception(error)
            for question in questions if len(questions) > 1 else ():  # another's key may be at fault
                self._ask_together([question])
        except Exception as error:  # noqa: BLE001  (the driver of this thread: whatever it is, who asked learns of it)
            for question in questions:
                question.answer.set_exception(error)
        else:
            for question, value in zip(questions, found.values(), strict=True):
                question.answer.set_result(_result(question.descriptor, value))


def _result(descriptor: StateDescriptor | None, value: StateValue) -> StateValue:
    if value is None or not isinstance(descriptor, AggregatingStateDescriptor):
        return value
    return descriptor.get_agg_function().get_result(value)


def _types_of(info: KvStateInfo) -> tuple[TypeInformation, TypeInformation]:
    key_type, value_type = types_from_json(info.types, 2)
    return key_type, value_type


def _as_away(error: TidegateError) -> TidegateError:
    """Converts the error of a missing or slow server so that the query is retried, since the state may have moved."""
    return error if isinstance(error, Unreachable) else StateNotServed(error.message)
