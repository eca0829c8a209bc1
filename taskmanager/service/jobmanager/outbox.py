"""Messages that wait to be sent to the JobManager, in order. Consecutive acknowledgements are sent as one message.

    put ─▶ [ state, ack, ack, ack, decline, ack ] ─▶ take: state · (ack ack ack) · decline · ack

No message is delayed here: one contains the acknowledgements that arrived while the previous message was in flight (docs/adr/0040). ``ack_batcher`` decides
which acknowledgements are batched.
"""

from __future__ import annotations

from collections import deque

from google.protobuf.message import Message

from tidegate.pb.jobmanager_pb2 import AcknowledgeCheckpointRequest, UpdateTaskStateRequest

BATCH_MAX_BYTES = 8 << 20
"""Bytes from which a message takes no further acknowledgement. Inline state is small, but there may be much of it."""

ACKNOWLEDGE = "AcknowledgeCheckpoint"


class JobManagerOutbox:
    """The messages for one generation of the JobManager, whichever connection leads to it."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Message]] = deque()
        self._on_its_way: tuple[str, Message] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, method: str, request: Message) -> None:
        self._waiting.append((method, request))

    def take(self) -> tuple[str, Message]:
        """Returns the next call. The caller repeats it until it is answered, before it takes the next."""
        method, request = self._waiting.popleft()
        if isinstance(request, AcknowledgeCheckpointRequest):
            self._gather(request)
        self._on_its_way = (method, request)
        return method, request

    def answered(self) -> None:
        """Notes that the last call that was taken was answered."""
        self._on_its_way = None

    def take_back(self) -> None:
        """Puts the unanswered call back as the next one, since the connection broke."""
        if self._on_its_way is not None:
            self._waiting.appendleft(self._on_its_way)
            self._on_its_way = None

    def unreported(self) -> set[str]:
        """Returns the attempts with a state that the JobManager may not know."""
        calls = [*self._waiting] if self._on_its_way is None else [self._on_its_way, *self._waiting]
        requests = [request for _, request in calls]
        return {request.attempt for request in requests if isinstance(request, UpdateTaskStateRequest)}

    def _gather(self, request: AcknowledgeCheckpointRequest) -> None:
        size_bytes = request.ByteSize()
        while self._waiting and size_bytes < BATCH_MAX_BYTES:
            _, further = self._waiting[0]
            if not isinstance(further, AcknowledgeCheckpointRequest) or further.generation != request.generation:
                return
            self._waiting.popleft()
            size_bytes += further.ByteSize()
            request.acknowledgements.extend(further.acknowledgements)
