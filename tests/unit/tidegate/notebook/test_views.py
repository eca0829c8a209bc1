from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tidegate.notebook.display import LEAST_PAUSE_S, LiveDisplay
from tidegate.notebook.graph_svg import HEIGHT, WIDTH, DrawnEdge, DrawnNode, graph_svg
from tidegate.notebook.job_view import facts, job_html
from tidegate.notebook.line_chart import MOST_SERIES, line_chart
from tidegate.notebook.tables import LONGEST_CELL, html_table, text_table
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb

ROWS = pa.table({"name": ["a<b", None, "x\ny"], "n": pa.array([1, 20, None], pa.int32())})


def parsed(html: str) -> ElementTree.Element:
    """What we write is also XML: a tag that is not closed, or a text that is not escaped, fails here."""
    return ElementTree.fromstring(f"<body>{html}</body>")


def test_a_table_escapes_its_texts_and_shows_nulls_and_types() -> None:
    body = parsed(html_table(ROWS, "3 rows: all of the stream"))
    cells = [["".join(cell.itertext()) for cell in row] for row in body.iter("tr")]
    assert cells == [["namestring", "nint32"], ["a<b", "1"], ["null", "20"], ["x\\ny", "null"]]
    assert "".join(body.itertext()).endswith("3 rows: all of the stream")


def test_a_table_of_text_has_numbers_at_the_right() -> None:
    assert text_table(ROWS, "note").splitlines() == [
        "name     n", "----  ----", "a<b      1", "null    20", "x\\ny  null", "note",
    ]  # fmt: skip


def test_a_long_value_is_cut_and_a_table_may_be_empty() -> None:
    assert "x" * LONGEST_CELL + "…" in text_table(pa.table({"a": ["x" * 1000]}))
    assert text_table(pa.table({"a": pa.array([], pa.string())})) == "a\n-"
    parsed(html_table(pa.table({})))


def boxes(svg: str) -> dict[str, tuple[float, float]]:
    """The upper left corners of the nodes, by their whole titles."""
    name = "{http://www.w3.org/2000/svg}"
    found = {}
    for group in parsed(svg).iter(f"{name}g"):
        box = group.find(f"{name}rect")
        assert box is not None
        found[group.findtext(f"{name}title") or ""] = (float(box.get("x", "")), float(box.get("y", "")))
    return found


def test_a_graph_has_each_node_right_of_what_it_reads_and_none_above_another() -> None:
    nodes = [DrawnNode(key, f"node {key} with a name that is long <&>") for key in "abcde"]
    edges = [
        DrawnEdge("a", "c", "HASH"),
        DrawnEdge("b", "c"),
        DrawnEdge("c", "d"),
        DrawnEdge("a", "e"),
        DrawnEdge("d", "e"),
        DrawnEdge("x", "a"),
    ]
    found = {title.split()[1]: place for title, place in boxes(graph_svg(nodes, edges)).items()}
    for edge in edges[:-1]:
        assert found[edge.target][0] >= found[edge.source][0] + WIDTH
    places = list(found.values())
    for i, (x, y) in enumerate(places):
        assert all(abs(x - other_x) >= WIDTH or abs(y - other_y) >= HEIGHT for other_x, other_y in places[i + 1 :])


def test_a_graph_with_a_cycle_is_drawn_all_the_same() -> None:
    assert (
        len(boxes(graph_svg([DrawnNode("a", "a"), DrawnNode("b", "b")], [DrawnEdge("a", "b"), DrawnEdge("b", "a")])))
        == 2
    )


def status(state: str = "RUNNING", **more: Any) -> pb.JobStatus:
    metrics = common_pb2.TaskMetrics(records_in=1200, user={"Source__taps.pendingRecords": 7})
    vertices = [
        pb.VertexStatus(
            vertex_id="s",
            name="Source: <taps>",
            parallelism=2,
            subtasks=[pb.SubtaskStatus(metrics=metrics)],
            task_counts={"RUNNING": 2},
        ),
        pb.VertexStatus(vertex_id="k", name="Sink", parallelism=1, task_counts={"INITIALIZING": 1}),
    ]
    return pb.JobStatus(name="a & b", state=state, start_ms=1_000, vertices=vertices, **more)


def test_a_job_says_how_fast_it_is_and_what_waits() -> None:
    waits = status(checkpoints_completed=3, checkpoints_failed=1, restarts=2, waiting_for="1 of 2 slots")
    assert facts(waits, frozenset("s"), 1234.5) == [
        "1,234 records/s", "1,200 records read", "7 records behind", "3 checkpoints, 1 failed", "2 restarts", "waiting for 1 of 2 slots",
    ]  # fmt: skip
    assert facts(status(), frozenset(), None) == ["0 records read"]


def test_a_job_has_its_graph_a_link_and_its_failure() -> None:
    failure = common_pb2.Error(code="user-function", message="operator 'Map': <no>\nmore")
    html = job_html(
        status("FAILED", failure=failure, end_ms=3_500),
        [DrawnEdge("s", "k", "HASH")],
        frozenset("s"),
        None,
        "http://h:1/#/jobs/a",
        9_000,
    )
    body = parsed(html)
    text = " ".join("".join(body.itertext()).split())
    assert "a & b FAILED 2.5 s page" in text
    assert "operator 'Map': <no>" in text
    assert "more" not in text
    assert [link.get("href") for link in body.iter("a")] == ["http://h:1/#/jobs/a"]
    assert set(boxes(html)) == {"Source: <taps>", "Sink"}
    assert "last failure: " in job_html(status(failure=failure), [], frozenset(), None, "", 9_000)


@pytest.mark.parametrize(
    ("took_ms", "text"), [(0, "0.0 s"), (59_949, "59.9 s"), (61_000, "1 min 01 s"), (7_260_000, "2 h 01 min")]
)
def test_how_long_a_job_runs(took_ms: int, text: str) -> None:
    assert f">{text}</span>" in job_html(status(), [], frozenset(), None, "", 1_000 + took_ms)


def test_a_chart_draws_lines_within_its_frame_and_says_how_many_it_leaves_out() -> None:
    lines = {f"<{i}>": [(float(x), float(x * i)) for x in range(5)] for i in range(MOST_SERIES + 2)}
    svg = parsed(line_chart(lines, "x", "y", x_is_time=False))
    drawn = list(svg.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(drawn) == MOST_SERIES
    for line in drawn:
        for point in line.get("points", "").split():
            x, y = map(float, point.split(","))
            assert 62 <= x <= 570
            assert 14 <= y <= 246
    assert "and 2 more" in "".join(svg.itertext())


def test_a_chart_shows_times_and_one_point_and_nothing() -> None:
    noon = datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC).timestamp() * 1000
    assert "12:00:07" in line_chart({"a": [(noon, 3.0)]}, "t", "y", x_is_time=True)
    parsed(line_chart({}, "t", "y", x_is_time=True))


class Shown:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def first(self, html: str, text: str) -> Shown:
        self.texts.append(html)
        return self

    def update(self, obj: object, *, raw: bool) -> None:
        assert isinstance(obj, dict)
        self.texts.append(obj["text/html"])


def test_a_display_is_updated_no_more_than_it_may_and_always_at_the_end() -> None:
    shown, now = Shown(), [0.0]
    display = LiveDisplay(shown.first, lambda: now[0])
    for step in range(101):
        now[0] = step * LEAST_PAUSE_S / 10
        display.update(f"{step}", "")
    display.update("100", "")
    display.update("end", "", is_last=True)
    display.update("end", "", is_last=True)
    assert shown.texts == [*(str(step) for step in range(0, 101, 10)), "end"]
