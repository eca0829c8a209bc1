"""Asks the JobManager for the location of a state; a standby names the leader."""

from __future__ import annotations

from typing import Protocol

import grpc

from tidegate.aio.admission import identified
from tidegate.aio.rpc import open_blocking_channel
from tidegate.aio.transport import PLAIN, Transport
from tidegate.model.errors import TidegateError, Unreachable
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.pb.jobmanager_pb2_grpc import JobManagerClientServiceStub
from tidegate.wire.convert import error_from_pb, error_of_status
from tidegate.wire.leading import leader_in

__all__ = ["JobManagerLocations", "Locations", "error_of_call"]

CALL_TIMEOUT_S = 10.0
"""The timeout of one call, in seconds. Shorter than Flink's minute for ``client.timeout``, which is for submissions."""
_LEADER_HOPS = 2
"""The most redirections to a leader: by a standby, and once more after a change of leader."""


class Locations(Protocol):
    """Locates the state of a job."""

    def kv_state_location(self, job_id: str, name: str) -> pb.KvStateLocationAnswer:
        """Returns the location of a state. Raises ``UnknownJob``, ``Unreachable``."""


class JobManagerLocations:
    """Locates states by the JobManager at ``host:port``."""

    def __init__(self, address: str, transport: Transport = PLAIN, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self._transport, self._metadata = transport, metadata
        self._open(address)

    def _open(self, address: str) -> None:
        self._address = address
        self._channel = open_blocking_channel(address, self._transport)
        self._stub = JobManagerClientServiceStub(identified(self._channel, self._metadata))

    def kv_state_location(self, job_id: str, name: str) -> pb.KvStateLocationAnswer:
        """Returns the location of a state. Raises ``UnknownJob``, ``Unreachable``."""
        request = pb.KvStateLocationRequest(job_id=job_id, name=name)
        for _ in range(_LEADER_HOPS + 1):
            try:
                answer: pb.KvStateLocationAnswer = self._stub.GetKvStateLocation(request, timeout=CALL_TIMEOUT_S)
            except grpc.RpcError as error:
                leader = _leader_of(error)
                if not leader:
                    raise error_of_call(error, f"the JobManager at {self._address}") from None
                self.close()
                self._open(leader)
                continue
            if answer.HasField("error"):
                raise error_from_pb(answer.error).to_exception()
            return answer
        raise Unreachable("the leader of the cluster is changing; try again")

    def close(self) -> None:
        """Closes the connections."""
        self._channel.close()


def error_of_call(error: grpc.RpcError, peer: str) -> TidegateError:
    """Returns the ``TidegateError`` of a failed call."""
    assert isinstance(error, grpc.Call), error
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return Unreachable(f"{peer} cannot be reached", details=error.details() or "")
    metadata = [(str(key), value) for key, value in error.trailing_metadata() or ()]
    return error_of_status(int(error.code().value[0]), error.details() or "", metadata, peer)


def _leader_of(error: grpc.RpcError) -> str:
    assert isinstance(error, grpc.Call), error
    metadata = [(str(key), value) for key, value in error.trailing_metadata() or ()]
    return leader_in(metadata) if error.code() is grpc.StatusCode.UNAVAILABLE else ""
