"""A program runs where it was signed for, and nothing of what its signature is about can be altered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.coordinators.operator_events import SourceSplit
from tidegate.model.errors import NotSigned
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo, Partitioner, SlotResources
from tidegate.model.ids import BlobKey, JobId, OperatorId, VertexId
from tidegate.model.masking import HIDDEN
from tidegate.security.signing import SignedVertex, Signing, graph_digest, key_of_own, key_of_text
from tidegate.wire.convert import graph_from_pb, graph_to_pb

KEY, OTHER = key_of_text("a" * 64), key_of_text("b" * 64)
JOB, FIRST, SECOND = JobId("a" * 32), VertexId("1" * 32), VertexId("2" * 32)
SIGNING = Signing((KEY,))


def make_graph() -> JobGraph:
    split = SourceSplit("one", b"content", 7)
    source = OperatorInfo(OperatorId(FIRST), "numbers", uid="numbers", is_source=True, splits=(split,))
    sink = OperatorInfo(OperatorId(SECOND), "print", is_sink=True)
    return JobGraph(
        JOB,
        "count",
        (
            JobVertex(FIRST, "numbers", 2, 128, (source,), BlobKey("c" * 64), spark_query=BlobKey("d" * 64)),
            JobVertex(SECOND, "print", 2, 128, (sink,), BlobKey("e" * 64)),
        ),
        (JobEdge(0, FIRST, SECOND, Partitioner.HASH),),
        {"pipeline.name": "count", "a.password": "of the job"},
        {"helper.py": BlobKey("f" * 64)},
        "3.11",
    )


SIGNED = SIGNING.signed(make_graph())


def with_first(change: Callable[[JobVertex], JobVertex]) -> JobGraph:
    return replace(SIGNED, vertices=(change(SIGNED.vertices[0]), *SIGNED.vertices[1:]))


def with_operator(change: Callable[[OperatorInfo], OperatorInfo]) -> JobGraph:
    return with_first(lambda vertex: replace(vertex, operators=(change(vertex.operators[0]),)))


ALTERED: dict[str, tuple[JobGraph, str]] = {
    "the job": (replace(SIGNED, job_id=JobId("b" * 32)), "another id of the job"),
    "a program": (
        with_first(lambda v: replace(v, program=BlobKey("0" * 64))),
        "another program and with another graph",
    ),
    "a query": (with_first(lambda v: replace(v, spark_query=BlobKey("0" * 64))), "another query of Spark"),
    "a query that is left out": (with_first(lambda v: replace(v, spark_query=None)), "another query of Spark"),
    "a file": (replace(SIGNED, blobs={"helper.py": BlobKey("0" * 64)}), "other files of the job"),
    "the name of a file": (replace(SIGNED, blobs={"helped.py": BlobKey("f" * 64)}), "other files of the job"),
    "a file more": (replace(SIGNED, blobs={**SIGNED.blobs, "x.py": BlobKey("f" * 64)}), "other files of the job"),
    "a vertex's id": (with_first(lambda v: replace(v, vertex_id=VertexId("3" * 32))), "another vertex"),
    "its signature for another vertex's": (
        with_first(lambda v: replace(v, signature=SIGNED.vertices[1].signature)),
        "another vertex",
    ),
    "a vertex's name": (with_first(lambda v: replace(v, name="other")), "another graph"),
    "a slot sharing group": (with_first(lambda v: replace(v, slot_sharing_group="other")), "another graph"),
    "that it keeps its parallelism": (with_first(lambda v: replace(v, keeps_parallelism=True)), "another graph"),
    "an operator": (with_operator(lambda o: replace(o, operator_id=OperatorId("9" * 32))), "another graph"),
    "its uid": (with_operator(lambda o: replace(o, uid="other")), "another graph"),
    "that it is a source": (with_operator(lambda o: replace(o, is_source=False)), "another graph"),
    "its union state": (with_operator(lambda o: replace(o, uses_union_state=True)), "another graph"),
    "its discovery": (with_operator(lambda o: replace(o, discovers_splits=True)), "another graph"),
    "a split": (with_operator(lambda o: replace(o, splits=(SourceSplit("one", b"other", 7),))), "another graph"),
    "no coordinator": (with_operator(lambda o: replace(o, splits=None)), "another graph"),
    "an edge": (replace(SIGNED, edges=()), "another graph"),
    "its partitioner": (
        replace(SIGNED, edges=(replace(SIGNED.edges[0], partitioner=Partitioner.REBALANCE),)),
        "another graph",
    ),
    "a vertex less": (replace(SIGNED, vertices=SIGNED.vertices[:1]), "another graph"),
    "the order of vertices": (replace(SIGNED, vertices=SIGNED.vertices[::-1]), "another graph"),
    "the job's name": (replace(SIGNED, name="other"), "another graph"),
    "an option": (replace(SIGNED, configuration={**SIGNED.configuration, "pipeline.name": "x"}), "another graph"),
    "the interpreter": (replace(SIGNED, python_version="3.12"), "another graph"),
}


def test_a_signed_graph_is_believed_also_behind_the_wire() -> None:
    SIGNING.check_graph(SIGNED)
    SIGNING.check_graph(graph_from_pb(graph_to_pb(SIGNED)))
    assert len({vertex.signature for vertex in SIGNED.vertices}) == 2


@pytest.mark.parametrize("what", ALTERED)
def test_what_was_signed_cannot_be_altered(what: str) -> None:
    altered, why = ALTERED[what]
    with pytest.raises(NotSigned, match=why) as refused:
        SIGNING.check_graph(altered)
    message = refused.value.message
    assert altered.job_id in message
    assert any(repr(vertex.name) in message and vertex.vertex_id in message for vertex in altered.vertices)
    assert "submit what was built" in message
    assert not refused.value.retriable


def test_rescaling_restoring_and_hidden_secrets_alter_nothing() -> None:
    resources = SlotResources("default", 1, 1.0, 1 << 20)
    rescaled = replace(
        SIGNED,
        vertices=tuple(
            replace(vertex, parallelism=3, max_parallelism=64, slot_resources=resources) for vertex in SIGNED.vertices
        ),
    )
    SIGNING.check_graph(rescaled)
    SIGNING.check_graph(replace(SIGNED, configuration={**SIGNED.configuration, "a.password": HIDDEN}))
    of_processes = {**SIGNED.configuration, "tidegate.security.insecure": "true"}
    SIGNING.check_graph(replace(SIGNED, configuration=of_processes))
    assert graph_digest(SIGNED) == graph_digest(make_graph()), "signatures are not part of it"


def test_what_is_not_signed_is_refused_with_what_to_do() -> None:
    with pytest.raises(NotSigned, match=f"job {JOB}, vertex 'numbers' .* is not signed.*key-file"):
        SIGNING.check_graph(make_graph())


def test_keys_and_clusters_differ() -> None:
    for other in (Signing((OTHER,)), Signing((key_of_own(b"a" * 64),))):
        with pytest.raises(NotSigned, match="not by a key of this cluster"):
            other.check_graph(SIGNED)
    with pytest.raises(NotSigned, match=r"another name of the cluster \(tidegate.security.signing.cluster\)"):
        Signing((KEY,), "production").check_graph(SIGNED)
    Signing((OTHER, KEY)).check_graph(SIGNED)
    with pytest.raises(NotSigned):
        Signing((KEY,)).check_graph(Signing((OTHER, KEY)).signed(make_graph()))


def first_as_deployed(graph: JobGraph = SIGNED) -> SignedVertex:
    vertex = graph.vertices[0]
    return SignedVertex(graph.job_id, vertex.vertex_id, vertex.name, vertex.program, vertex.spark_query, graph.blobs)


def test_a_taskmanager_checks_a_vertex_without_its_graph() -> None:
    signature, vertex = SIGNED.vertices[0].signature, first_as_deployed()
    SIGNING.check_vertex(signature, vertex)
    altered = {
        "another id of the job": replace(vertex, job_id=JobId("b" * 32)),
        "another vertex": replace(vertex, vertex_id=SECOND),
        "another program": replace(vertex, program=BlobKey("0" * 64)),
        "another query of Spark": replace(vertex, spark_query=None),
        "other files of the job": replace(vertex, files={}),
    }
    for why, other in altered.items():
        with pytest.raises(NotSigned, match=why):
            SIGNING.check_vertex(signature, other)
    for none in ("", "x", "|", "{}|", signature[:-1], signature + "0", "\ud800|\ud800", signature * 9):
        with pytest.raises(NotSigned):
            SIGNING.check_vertex(none, vertex)


@given(st.integers(0, len(SIGNED.vertices[0].signature) - 1), st.characters())
def test_no_character_of_a_signature_can_be_another_one(position: int, character: str) -> None:
    signature = SIGNED.vertices[0].signature
    if signature[position] != character:
        altered = signature[:position] + character + signature[position + 1 :]
        with pytest.raises(NotSigned):
            SIGNING.check_vertex(altered, first_as_deployed())


NAMES = st.text('ab",:{}[]\\ä\x00', max_size=6)
FILES = st.dictionaries(NAMES, st.sampled_from([BlobKey("0" * 64), BlobKey("1" * 64)]), max_size=3)


@given(NAMES, FILES, st.dictionaries(NAMES, NAMES, max_size=3), NAMES, FILES, st.dictionaries(NAMES, NAMES, max_size=3))
def test_different_graphs_have_different_digests(
    name: str,
    files: dict[str, BlobKey],
    options: dict[str, str],
    other_name: str,
    other_files: dict[str, BlobKey],
    other_options: dict[str, str],
) -> None:
    one = replace(SIGNED, name=name, blobs=files, configuration={f"x.{key}": text for key, text in options.items()})
    other = replace(
        SIGNED,
        name=other_name,
        blobs=other_files,
        configuration={f"x.{key}": text for key, text in other_options.items()},
    )
    is_same = (name, files, options) == (other_name, other_files, other_options)
    assert (graph_digest(one) == graph_digest(other)) == is_same
