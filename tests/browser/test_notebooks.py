"""Notebooks: cells in a real kernel, and what they show in a real browser."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.accessible import violations
from tests.browser.chromium import OpenPage
from tests.browser.kernel import Kernel, Output

ROOT = Path(__file__).parents[2]
PROGRAM = """
import pyarrow as pa
from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.datastream import StreamExecutionEnvironment

def taps(first, rows):
    numbers = range(first, first + rows)
    return pa.RecordBatch.from_pydict({"station": ["Centraal" if n % 3 else "Zuid" for n in numbers], "n": list(numbers)})

def new_env():
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)

def endless(env):
    return env.from_source(DataGeneratorSource(taps, 10_000_000, rows_per_second=500), WatermarkStrategy.no_watermarks(), "taps")

def run_once(name):
    env = new_env()
    env.from_collection([1], Types.INT()).key_by(lambda n: n).reduce(lambda a, b: a).filter(lambda n: False).print()
    env.execute(name)
"""
FAILING = """def halves(x):
    y = 6
    return y / (x - 2)

env = new_env()
env.from_collection([1, 2, 3], Types.INT()).map(halves).print()
env.execute('fails')"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel that has the program's names, with the cluster of its first job."""
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    try:
        assert_ran(kernel.run(PROGRAM))
        yield kernel
    finally:
        kernel.close()


def assert_ran(output: Output) -> Output:
    assert output.error_lines == []
    return output


def states(html: str) -> dict[str, str]:
    """The states of all jobs by name, from the API behind the link of a job's view; the last one of a name."""
    found = re.search(r'href="(http://[^/]+)/', html)
    assert found is not None, html
    with urllib.request.urlopen(f"{found[1]}/jobs/overview", timeout=60) as answer:
        jobs = json.load(answer)["jobs"]
    return {job["name"]: job["state"] for job in sorted(jobs, key=lambda job: job["start-time"])}


def test_a_cell_shows_its_job_and_is_updated_no_more_than_twice_a_second(kernel: Kernel) -> None:
    output = assert_ran(
        kernel.run(
            """
import time
env = new_env()
numbers = env.from_source(DataGeneratorSource(taps, 1500, rows_per_second=500), WatermarkStrategy.no_watermarks(), "taps").map(lambda tap: tap["n"])
numbers.key_by(lambda n: n % 7).reduce(lambda a, b: a + b).filter(lambda n: False).print()
began = time.monotonic()
env.execute("three seconds")
print("took", time.monotonic() - began)
"""
        )
    )
    (views,) = output.displays.values()
    assert "FINISHED" in views[-1]
    assert "1,500 records read" in views[-1]
    assert len(views) <= float(output.text.split()[1]) / 0.5 + 2
    assert any("RUNNING" in view for view in views)
    assert "HASH" in views[-1]
    assert states(views[-1])["three seconds"] == "FINISHED"


def test_a_failing_function_shows_its_own_line_and_the_cell_that_ran_it(kernel: Kernel) -> None:
    output = kernel.run(FAILING)
    assert output.error == "UserFunctionError"
    text = "\n".join(output.error_lines)
    assert re.search(r"Cell In\[\d+\], line 7\n----> 7 env\.execute\('fails'\)", text)
    assert re.search(
        r"Cell In\[\d+\], line 3, in halves\n +----> 3 return y / \(x - 2\)\n +ZeroDivisionError: division by zero",
        text,
    )
    assert len(output.error_lines) <= 12
    assert "data_stream.py" not in text
    verbose = kernel.run(
        "%xmode Verbose\nenv.from_collection([2], Types.INT()).map(halves).print()\nenv.execute('fails')"
    )
    kernel.run("%xmode Context")
    assert any("data_stream.py" in line for line in verbose.error_lines)


def test_the_first_rows_of_an_endless_stream_are_a_table_and_its_job_ends(kernel: Kernel) -> None:
    output = assert_ran(
        kernel.run(
            """
env = new_env()
env.enable_checkpointing(600_000)
stream = endless(env)
stream.map(lambda tap: 1 / 0).print()
stream.show(3)
found = stream.preview(4)
print(found.table.num_rows, list(found.to_pandas()["n"]), found.note)
one = new_env().from_collection([("a", 1), ("b", 2)], Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()])).preview()
print(repr(one))
print(new_env().from_collection([{1: 2}]).preview().table.to_pylist())
"""
        )
    )
    ((table,),) = output.displays.values()
    assert re.findall(r"<td[^>]*>([^<]*)</td>", table) == ["Zuid", "0", "Centraal", "1", "Centraal", "2"]
    assert "the first 3 rows" in table
    assert output.text == (
        "4 [0, 1, 2, 3] the first 4 rows\nk  v\n-  -\na  1\nb  2\n2 rows: all of the stream\n[{'value': '{1: 2}'}]\n"
    )
    view = kernel.run("run_once('last')").last_views[0]
    assert states(view)["preview"] == "FINISHED"
    quiet = kernel.run("endless(new_env()).filter(lambda tap: False).preview(3, seconds=1.5).note")
    assert quiet.results == ["'0 rows within 1.5 s; the stream goes on'"]
    assert states(view)["preview"] == "CANCELED"


def test_bad_words_are_one_line(kernel: Kernel) -> None:
    for code, words in {
        "endless(new_env()).show(0)": "a preview needs at least 1 row",
        "endless(new_env()).plot('m', 'n')": "plot: the stream has no column 'm'; it has station, n",
        "endless(new_env()).plot('n', 'station')": "plot: column 'station' has the type string",
        "endless(new_env()).plot('station', 'n')": "the x axis needs numbers or times",
        "new_env().from_collection([{}]).plot('a', 'b')": "plot() needs columns",
    }.items():
        output = kernel.run(code)
        assert output.error == "InvalidJob", code
        assert words in output.error_lines[-1], output.error_lines


def test_a_client_is_a_live_view_and_a_cell_that_runs_again_replaces_its_job(kernel: Kernel) -> None:
    code = (
        "env = new_env()\nendless(env).filter(lambda tap: False).print()\nclient = env.execute_async('goes on')\nclient"
    )
    first = assert_ran(kernel.run(code, cell="a"))
    first_id = kernel.run("str(client.get_job_id())").results[0]
    output = assert_ran(kernel.run(code, cell="a"))
    assert f"cancelling job {first_id[1:-1]} of the last run of this cell" in output.errors
    kernel.run("while client.get_job_status().result().name != 'RUNNING': pass")
    (view,) = first.last_views
    assert states(view)["goes on"] == "RUNNING"
    other = assert_ran(kernel.run(code.replace("goes on", "another"), cell="b"))
    assert "cancelling" not in other.errors
    assert states(view)["goes on"] == "RUNNING"
    assert_ran(kernel.run("for job in (client,): job.cancel().result()"))


def test_an_interrupt_of_the_cell_ends_its_job(kernel: Kernel) -> None:
    request = kernel.start(
        "env = new_env()\nendless(env).filter(lambda tap: False).print()\nenv.execute('interrupted')"
    )
    begun = kernel.watch(request, "<b>interrupted</b>")
    kernel.interrupt()
    output = kernel.finish(request, begun)
    assert output.error == "JobCanceled"
    (view,) = [view for view in output.last_views if "<b>interrupted</b>" in view]
    assert "CANCELED" in view
    assert states(view)["interrupted"] == "CANCELED"


def test_a_windowed_stream_is_a_plot_that_moves(kernel: Kernel) -> None:
    output = assert_ran(
        kernel.run(
            """
from tidegate.common.time import Duration, Time
from tidegate.datastream.aggregates import count
from tidegate.datastream.window import TumblingEventTimeWindows

def timed(first, rows):
    numbers = range(first, first + rows)
    return pa.RecordBatch.from_pydict({"station": ["Centraal" if n % 3 else "Zuid" for n in numbers], "at": [n * 10 for n in numbers]})

source = DataGeneratorSource(timed, 2000, rows_per_second=600)
stream = new_env().from_source(source, WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at"), "taps")
stream.key_by("station").window(TumblingEventTimeWindows.of(Time.seconds(1))).agg(count().alias("taps")).plot("window_start", "taps", by="station")
"""
        )
    )
    (charts,) = output.displays.values()
    assert len(charts) >= 2
    drawn = re.findall(r'polyline points="([^"]+)"', charts[-1])
    assert [len(line.split()) for line in drawn] == [20, 20]
    assert "Zuid" in charts[-1]
    assert "00:00:19" in charts[-1]


def test_cells_of_sql(kernel: Kernel) -> None:
    assert_ran(kernel.run("%load_ext tidegate.table"))
    made = assert_ran(
        kernel.run(
            "%%tidegate_sql\nCREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '50', 'fields.n.kind' = 'sequence', "
            "'fields.n.start' = '1', 'fields.n.end' = '100000');\n-- a comment\nCREATE VIEW few AS SELECT n, n * 2 AS twice FROM numbers WHERE n <= 3"
        )
    )
    assert made.last_views == ["<div>OK</div>"] * 2
    output = assert_ran(kernel.run("%%tidegate_sql --rows 3 -o rows\nSELECT * FROM few"))
    (table,) = output.last_views
    assert re.findall(r"<td[^>]*>([^<]*)</td>", table) == ["+I", "1", "2", "+I", "2", "4", "+I", "3", "6"]
    assert kernel.run("rows.column('twice').to_pylist()").results == ["[2, 4, 6]"]
    assert "<td" in kernel.run("tidegate_sql_environment.execute_sql('SHOW TABLES')").results[0]
    assert "twice" in kernel.run("tidegate_sql_environment.from_path('few')").results[0]
    wrong = kernel.run("%%tidegate_sql\nSELECT 1;\nSELECT nothing\nFROM few")
    assert wrong.error == "InvalidStatement"
    assert "this cell, statement 2, line 2, column 1" in "\n".join(wrong.error_lines)
    for line, words in {
        "--sheep": "unrecognized arguments: --sheep",
        "-e nowhere": "--environment nowhere names no variable",
        "-e pa": "names a module",
    }.items():
        refused = kernel.run(f"%%tidegate_sql {line}\nSELECT 1")
        assert (refused.error, words in refused.error_lines[-1]) == ("Misuse", True), refused.error_lines
    started = assert_ran(
        kernel.run(
            "%%tidegate_sql\nCREATE TABLE nowhere (n INT) WITH ('connector' = 'blackhole');\nINSERT INTO nowhere SELECT n FROM numbers",
            cell="sql",
        )
    )
    assert "RUNNING" in started.last_views[-1]
    again = assert_ran(kernel.run("%%tidegate_sql\nINSERT INTO nowhere SELECT n FROM numbers WHERE n > 5", cell="sql"))
    assert "of the last run of this cell" in again.errors


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_what_cells_show_is_readable_in_both_themes_and_on_a_phone(
    kernel: Kernel, open_page: OpenPage, tmp_path: Path, width: int, theme: str
) -> None:
    shown = [
        *kernel.run(
            "env = new_env()\nendless(env).key_by('station').sum('n').filter(lambda x: False).print()\nenv"
        ).results,
        *kernel.run("stream = endless(new_env())\nstream.show(3)\nstream").last_views,
        *kernel.run("run_once('a view')").last_views,
    ]
    assert len(shown) == 3
    page_file = tmp_path / "outputs.html"
    colors = "background:#111;color:#ddd" if theme == "dark" else "background:#fff;color:#111"
    sections = "".join(f"<section>{html}</section>" for html in shown)
    head = "<title>outputs</title><style>a{color:inherit}</style>"
    body = f'<body style="{colors}"><main><h1>outputs</h1>{sections}</main></body>'
    page_file.write_text(f'<!doctype html><html lang="en"><head>{head}</head>{body}</html>')
    page = open_page(page_file.as_uri(), width, theme)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=tmp_path / "outputs.png", full_page=True)


def test_the_example_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())
    kernel = Kernel(tmp_path)
    try:
        outputs = [
            assert_ran(kernel.run("".join(cell["source"]), cell["id"]))
            for cell in notebook["cells"]
            if cell["cell_type"] == "code"
        ]
    finally:
        kernel.close()
    assert any("FINISHED" in view for output in outputs for view in output.last_views)
    assert any("polyline" in view for output in outputs for view in output.last_views)
