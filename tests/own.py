"""How tests reach a process of their own user that has no certificates configured, and sign what they submit to it."""

from __future__ import annotations

from tidegate.aio.signing import signing_of
from tidegate.aio.transport import Transport
from tidegate.aio.transports import transport_of
from tidegate.model.configuration import Configuration
from tidegate.model.graph import JobGraph, JobVertex
from tidegate.model.ids import BlobKey, parse_attempt_id
from tidegate.pb import common_pb2
from tidegate.security.signing import SigningNow


def own_transport() -> Transport:
    return transport_of(Configuration.from_strings({}))


def own_signing() -> SigningNow:
    signing = signing_of(Configuration.from_strings({}))
    assert signing is not None
    return signing


def sign(deployment: common_pb2.TaskDeployment) -> None:
    """Signs it as the client of a job of one vertex would have done."""
    attempt = parse_attempt_id(deployment.attempt)
    query = BlobKey(deployment.spark_query) if deployment.HasField("spark_query") else None
    program, name = BlobKey(deployment.program), deployment.task_name
    vertex = JobVertex(attempt.vertex_id, name, 1, 128, (), program, spark_query=query)
    files = {name: BlobKey(key) for name, key in deployment.blobs.items()}
    (signed,) = own_signing()().signed(JobGraph(attempt.job_id, "", (vertex,), (), {}, files)).vertices
    deployment.signature = signed.signature
