"""Every pair of converters round-trips, whatever the values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model import checkpoint as cp
from tidegate.model import deployment as dp
from tidegate.model import graph as gr
from tidegate.model.accumulators import SerializedAccumulator
from tidegate.model.errors import ErrorInfo, InternalError, Unreachable, VersionMismatch
from tidegate.model.ids import AttemptId, SubtaskId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.pb import common_pb2 as pb
from tidegate.wire import convert

HEX = st.text("0123456789abcdef", min_size=32, max_size=32)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SMALL = st.integers(0, 2**31 - 1)
LARGE = st.integers(0, 2**63 - 1)
TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)
ATTEMPTS = st.builds(AttemptId, HEX, HEX, SMALL, SMALL)
HANDLES = st.builds(cp.StateHandle, LARGE, TEXT, TEXT, st.none() | st.binary(max_size=9))
RANGES = st.builds(KeyGroupRange, SMALL, SMALL)
SEGMENTS = st.builds(
    cp.SegmentHandle,
    TEXT,
    RANGES,
    st.lists(LARGE, max_size=3).map(tuple),
    HANDLES,
    first_ms=st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1)),
)
STATES = st.builds(cp.OperatorStateHandle, TEXT, st.sampled_from(cp.StateRedistribution), LARGE, HANDLES)
SEGMENT_TUPLES = st.lists(SEGMENTS, max_size=2).map(tuple)
STATE_TUPLES = st.lists(STATES, max_size=2).map(tuple)
SNAPSHOTS = st.builds(
    cp.SubtaskSnapshot,
    st.dictionaries(HEX, st.builds(cp.OperatorSnapshot, SEGMENT_TUPLES, STATE_TUPLES), max_size=2),
)
OPTIONS = st.builds(
    cp.CheckpointOptions,
    TEXT,
    st.sampled_from(cp.SnapshotType),
    st.sampled_from(cp.Alignment),
    st.none() | LARGE,
    st.booleans(),
    TEXT,
    LARGE,
)
FLOATS = st.floats(allow_nan=False)
METRICS = st.builds(
    cp.CheckpointMetrics, FLOATS, FLOATS, FLOATS, FLOATS, LARGE, LARGE, st.integers(-(2**63), 2**63 - 1), st.booleans()
)
RESTORES = st.builds(
    cp.TaskRestore,
    LARGE,
    TEXT,
    st.dictionaries(
        HEX,
        st.builds(
            cp.RestoredOperator,
            SEGMENT_TUPLES,
            STATE_TUPLES,
            st.lists(st.tuples(LARGE, LARGE), max_size=2).map(tuple),
        ),
        max_size=2,
    ),
)
PARTITIONERS = st.sampled_from(gr.Partitioner)
DEPLOYMENTS = st.builds(
    dp.TaskDeployment,
    attempt=ATTEMPTS,
    generation=HEX,
    allocation_id=HEX,
    job_name=TEXT,
    task_name=TEXT,
    parallelism=SMALL,
    max_parallelism=SMALL,
    program=TEXT,
    inputs=st.lists(
        st.builds(dp.InputDeployment, SMALL, SMALL, PARTITIONERS, st.lists(ATTEMPTS, max_size=2).map(tuple)), max_size=2
    ).map(tuple),
    outputs=st.lists(
        st.builds(dp.OutputDeployment, SMALL, PARTITIONERS, st.lists(SMALL, max_size=2).map(tuple), SMALL, SMALL),
        max_size=2,
    ).map(tuple),
    restore=st.none() | RESTORES,
    configuration=TEXTS,
    blobs=TEXTS,
    is_source=st.booleans(),
    data_token=TEXT,
    finished_on_restore=st.booleans(),
)
OPERATORS = st.builds(gr.OperatorInfo, HEX, TEXT, TEXT, st.booleans(), st.booleans(), st.booleans())
VERTICES = st.builds(
    gr.JobVertex,
    HEX,
    TEXT,
    SMALL,
    SMALL,
    st.lists(OPERATORS, max_size=2).map(tuple),
    TEXT,
    st.booleans(),
    TEXT,
)
GRAPHS = st.builds(
    gr.JobGraph,
    HEX,
    TEXT,
    st.lists(VERTICES, max_size=2).map(tuple),
    st.lists(st.builds(gr.JobEdge, SMALL, HEX, HEX, PARTITIONERS, SMALL), max_size=2).map(tuple),
    TEXTS,
    TEXTS,
    TEXT,
)
ERRORS = st.builds(
    ErrorInfo, TEXT, st.sampled_from(["user", "external", "internal"]), TEXT, st.booleans(), TEXT, TEXT, TEXT
)


SEEN = {"seen": SerializedAccumulator("IntCounter", "7")}


@dataclass(frozen=True)
class Counters:
    records_in: int = 1
    records_out: int = 2
    bytes_in: int = 3
    bytes_out: int = 4
    busy_ms: int = 5
    idle_ms: int = 6
    backpressured_ms: int = 7
    watermark_ms: int | None = None
    late_records_dropped: int = 8
    user: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    operator_ids: dict[str, str] = field(default_factory=dict)
    accumulators: dict[str, SerializedAccumulator] = field(default_factory=dict)


@settings(max_examples=40, deadline=None)
@given(SNAPSHOTS)
def test_snapshots(snapshot: cp.SubtaskSnapshot) -> None:
    wire = pb.SubtaskSnapshot.FromString(convert.snapshot_to_pb(snapshot).SerializeToString())
    assert convert.snapshot_from_pb(wire) == snapshot


@settings(max_examples=40, deadline=None)
@given(OPTIONS, METRICS)
def test_options_and_metrics(options: cp.CheckpointOptions, metrics: cp.CheckpointMetrics) -> None:
    assert convert.options_from_pb(convert.options_to_pb(options)) == options
    assert convert.checkpoint_metrics_from_pb(convert.checkpoint_metrics_to_pb(metrics)) == metrics


@settings(max_examples=40, deadline=None)
@given(DEPLOYMENTS)
def test_deployments(deployment: dp.TaskDeployment) -> None:
    wire = convert.deployment_to_bytes(deployment)
    assert convert.deployment_from_bytes(wire) == deployment
    backwards = replace(deployment, configuration=dict(reversed(list(deployment.configuration.items()))))
    assert convert.deployment_to_bytes(backwards) == wire, "a repeated call is known by its bytes"


@settings(max_examples=40, deadline=None)
@given(GRAPHS, ERRORS)
def test_graphs_and_errors(graph: gr.JobGraph, error: ErrorInfo) -> None:
    assert convert.graph_from_pb(convert.graph_to_pb(graph)) == graph
    assert convert.error_from_pb(convert.error_to_pb(error)) == error
    assert convert.error_of_ack(convert.ack_of(error)) == error
    number, text, metadata = convert.status_of_error(error)
    back = convert.error_of_status(number, text, metadata)
    assert back.message == error.message
    assert back.details == error.details


@pytest.mark.parametrize(
    "counters",
    [
        Counters(),
        Counters(watermark_ms=-5, user={"a": 0.5}, figures={"b": 1.5}, operator_ids={"a": "f" * 32}, accumulators=SEEN),
    ],
)
def test_task_metrics_keep_an_absent_watermark_absent(counters: Counters) -> None:
    assert Counters(**convert.task_metrics_from_pb(convert.task_metrics_to_pb(counters))) == counters


def test_producers() -> None:
    attempt = AttemptId("a" * 32, "b" * 32, 3, 1)  # type: ignore[arg-type]
    producer = dp.ProducerAddress(attempt, "unix:/x")
    assert convert.producer_from_pb(convert.producer_to_pb(producer)) == producer
    assert attempt.subtask_id == SubtaskId(attempt.vertex_id, 3)


def test_what_is_unknown_here_is_refused_by_name() -> None:
    with pytest.raises(VersionMismatch, match="SnapshotType 'NEWER'"):
        convert.options_from_pb(pb.CheckpointOptions(snapshot_type="NEWER", alignment="ALIGNED"))
    with pytest.raises(InternalError, match="not an execution attempt id"):
        convert.attempt_from_text("nonsense")


def test_a_status_without_our_error_says_what_the_transport_saw() -> None:
    lost = convert.error_of_status(14, "connection refused", None, "h:1")
    assert isinstance(lost, Unreachable)
    assert lost.message == "cannot reach h:1: connection refused"
    assert isinstance(convert.error_of_status(12, "", None), VersionMismatch)
    too_long = convert.error_of_status(8, "CLIENT: Received message larger than max (9 vs. 8)", None)
    assert str(too_long).endswith("set tidegate.rpc.max-message-size for all processes")
    assert isinstance(convert.error_of_status(2, "boom", [("tidegate-error-bin", b"\xff")]), InternalError)
