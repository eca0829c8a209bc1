"""Signatures of programs, which are verified before a cluster unpickles anything.

client:       job graph ─▶ one statement for each vertex ─▶ HMAC-SHA256 under a key ─▶ ``JobVertex.signature``
JobManager:   the same graph ─▶ the statements that it would make ─▶ equal, and under a key of the cluster?
TaskManager:  a deployment ─▶ the same for its vertex; of the graph it has the digest alone, which it cannot compute

A statement names the cluster, the job, the vertex, and digests of the vertex's program, of its query, of the job's files and of its graph. What changes
when a job is rescaled or restored is not in it, and neither are secrets, which a shown graph lacks. Pure: no file, no clock.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tidegate.model.errors import NotSigned
from tidegate.model.graph import JobGraph, JobVertex
from tidegate.model.ids import BlobKey, JobId, VertexId
from tidegate.model.job_configuration import may_travel
from tidegate.model.masking import is_sensitive

_PROGRAMS, _OWN = b"tidegate: programs, 1", b"tidegate: signing under the key of a user, 1"
_MANIFESTS = b"tidegate: manifests, 1"
"""Labels from which each use of a key derives a key of its own."""
_MOST = 4096
"""The most characters of a signature; tidegate's have about 600."""
_HOW_TO = (
    "submit the job with a key of this cluster: tidegate.security.signing.key-file where the cluster has one, otherwise as the user of the cluster, "
    "with the same tidegate.home"
)


@dataclass(frozen=True, slots=True)
class SignedVertex:
    """The content that a vertex's signature covers, at a client, a JobManager or a TaskManager. ``name``: of the vertex, for messages."""

    job_id: JobId
    vertex_id: VertexId
    name: str
    program: BlobKey
    spark_query: BlobKey | None
    files: Mapping[str, BlobKey]


@dataclass(frozen=True, slots=True)
class Signing:
    """The signing keys of a cluster: the first one signs, all of them verify. ``cluster``: its name, where several clusters have the same keys."""

    keys: tuple[bytes, ...]
    cluster: str = ""

    def signed(self, graph: JobGraph) -> JobGraph:
        """Returns the graph with a new signature of each vertex."""
        digest = graph_digest(graph)
        return replace(
            graph,
            vertices=tuple(
                replace(vertex, signature=self._signature(self._statement(_of(graph, vertex), digest)))
                for vertex in graph.vertices
            ),
        )

    def check_graph(self, graph: JobGraph) -> None:
        """Verifies the signature of each vertex in this graph. Raises ``NotSigned``."""
        digest = graph_digest(graph)
        for vertex in graph.vertices:
            self._check(vertex.signature, _of(graph, vertex), digest)

    def check_vertex(self, signature: str, vertex: SignedVertex) -> None:
        """Verifies the signature of one vertex, without the rest of its job's graph. Raises ``NotSigned``."""
        self._check(signature, vertex, None)

    def code_of_manifest(self, parts: Iterable[bytes | memoryview]) -> str:
        """Returns the signature of a manifest, 64 hex digits."""
        return _code_of_manifest(self.keys[0], self.cluster, parts)

    def check_manifest(self, code: str, parts: Iterable[bytes | memoryview], place: str) -> None:
        """Verifies the signature of a manifest; an empty ``code``: it has none. ``place``: its file, for messages. Raises ``NotSigned``."""
        kept = list(parts)
        if any(hmac.compare_digest(_code_of_manifest(key, self.cluster, kept), code) for key in self.keys):
            return
        what = "its signature is not by a key of this cluster, or it was altered" if code else "it is not signed"
        raise NotSigned(
            f"{place}: {what}, and this cluster restores only signed checkpoints and savepoints, so nothing of it was opened; restore one that a cluster with "
            "its key has written, or, where you trust this one, switch tidegate.security.signing.manifests off for it"
        )

    def _check(self, signature: str, vertex: SignedVertex, graph: str | None) -> None:
        where = f"job {vertex.job_id}, vertex {vertex.name!r} ({vertex.vertex_id})"
        if not signature:
            raise NotSigned(
                f"{where}: its program is not signed, and this cluster runs only signed programs; {_HOW_TO}"
            )
        text, _, found = signature.rpartition("|")
        if len(signature) > _MOST or not any(_is_of(key, text, found) for key in self.keys):
            raise NotSigned(
                f"{where}: its signature is not by a key of this cluster, or was altered; nothing of the program was opened; {_HOW_TO}"
            )
        said: dict[str, str] = json.loads(text)
        wanted = self._statement(vertex, said["graph"] if graph is None else graph)
        wrong = [name for name, value in wanted.items() if said.get(name) != value]
        if wrong:
            raise NotSigned(
                f"{where}: it was signed with {' and with '.join(_DIFFERENCES[name] for name in wrong)}; nothing of the program was opened; "
                "build the job again and submit what was built, unaltered"
            )

    def _statement(self, vertex: SignedVertex, graph: str) -> dict[str, str]:
        return {
            "cluster": self.cluster,
            "job": vertex.job_id,
            "vertex": vertex.vertex_id,
            "program": vertex.program,
            "query": vertex.spark_query or "",
            "files": _digest(dict(vertex.files)),
            "graph": graph,
        }

    def _signature(self, statement: Mapping[str, str]) -> str:
        text = _canonical(statement)
        return f"{text}|{_mac(self.keys[0], text)}"


SigningNow = Callable[[], Signing]
"""Returns the current keys of the file."""

_DIFFERENCES = {
    "cluster": "another name of the cluster (tidegate.security.signing.cluster)",
    "job": "another id of the job",
    "vertex": "another vertex",
    "program": "another program",
    "query": "another query of Spark",
    "files": "other files of the job",
    "graph": "another graph of the job (its vertices, operators, splits, edges, name or configuration)",
}


def key_of_text(secret: str) -> bytes:
    """Derives the key by which programs are signed from a line of a key file."""
    return hmac.digest(secret.encode(), _PROGRAMS, "sha256")


def key_of_own(private_key: bytes) -> bytes:
    """Derives a signing key from the key by which processes of a user authenticate each other."""
    return hmac.digest(private_key, _OWN, "sha256")


def graph_digest(graph: JobGraph) -> str:
    """Returns a digest of everything in a graph that stays unchanged after submission, without secrets."""
    return _digest(
        {
            "name": graph.name,
            "python": graph.python_version,
            "files": dict(graph.blobs),
            "configuration": {
                key: text for key, text in graph.configuration.items() if may_travel(key) and not is_sensitive(key)
            },
            "vertices": [
                [
                    vertex.vertex_id,
                    vertex.name,
                    vertex.program,
                    vertex.spark_query,
                    vertex.slot_sharing_group,
                    vertex.keeps_parallelism,
                    [
                        [
                            operator.operator_id,
                            operator.name,
                            operator.uid,
                            operator.uses_union_state,
                            operator.is_source,
                            operator.is_sink,
                            operator.discovers_splits,
                            None
                            if operator.splits is None
                            else [[split.split_id, split.content.hex(), split.size_bytes] for split in operator.splits],
                        ]
                        for operator in vertex.operators
                    ],
                ]
                for vertex in graph.vertices
            ],
            "edges": [
                [edge.edge_id, edge.source, edge.target, edge.partitioner.value, edge.input_index]
                for edge in graph.edges
            ],
        }
    )


def _of(graph: JobGraph, vertex: JobVertex) -> SignedVertex:
    return SignedVertex(graph.job_id, vertex.vertex_id, vertex.name, vertex.program, vertex.spark_query, graph.blobs)


def _code_of_manifest(key: bytes, cluster: str, parts: Iterable[bytes | memoryview]) -> str:
    found = hmac.new(hmac.digest(key, _MANIFESTS, "sha256"), f"{_canonical(cluster)}\n".encode(), hashlib.sha256)
    for part in parts:
        found.update(part)
    return found.hexdigest()


def _canonical(value: object) -> str:
    """Returns texts that are equal for equal values alone: the fields of an object are sorted and texts are quoted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(value: object) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _is_of(key: bytes, text: str, mac: str) -> bool:
    return hmac.compare_digest(_mac(key, text).encode(), mac.encode("utf-8", "surrogatepass"))
