"""First afternoons: what people who come from Spark, from Flink or with a notebook do first, step by step, from a bare clone, with the time of each step.

    python -m benchmarks.first_afternoons {spark,flink,notebook} [--directory DIR]

Each step is a command that such a person types, in an empty directory with a virtual environment and a home of its own, and what it is expected to
print. A step that fails, takes longer than its limit or prints something else is a surprise: its output is shown, and the exit code is 1. What people
found odd although it worked is written down in docs/internals/first_afternoons.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tidegate.model.values import JsonObject

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300.0
"""A step that takes longer ends here. Chosen: the longest is the installation."""
WORDS = """
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
words = env.from_collection(["to be", "or not", "to be"]).flat_map(str.split, Types.STRING())
words.map(lambda w: (w, 1), Types.TUPLE([Types.STRING(), Types.INT()])).key_by(lambda t: t[0]).sum(1).print()
env.execute("words")
"""
TAPS = '''
from pyflink.table import EnvironmentSettings, TableEnvironment

t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
t_env.execute_sql("""CREATE TABLE taps (station INT, amount DOUBLE) WITH ('connector' = 'datagen', 'number-of-rows' = '1000',
    'fields.station.min' = '1', 'fields.station.max' = '3')""")
t_env.execute_sql("SELECT station, COUNT(*) AS taps FROM taps GROUP BY station").print()
'''
ENDLESS = """
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
import time

def slowly(number):
    time.sleep(0.001)
    return number % 7, 1

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(500)
numbers = env.from_source(NumberSequenceSource(1, 10_000_000), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
pairs = numbers.map(slowly, Types.TUPLE([Types.LONG(), Types.INT()])).uid("pairs")
pairs.key_by(lambda pair: pair[0]).sum(1).uid("totals").print().uid("out")
env.execute("totals")
"""
MEND = r"sed -i 's/\bfrom pyflink\b/from tidegate/; s/\bimport pyflink\b/import tidegate/'"
FAILS = (
    "from tidegate.common import Types\nfrom tidegate.datastream import StreamExecutionEnvironment\n"
    "env = StreamExecutionEnvironment.get_execution_environment()\n",
    "def halves(x):\n    y = 1\n    return y / (x - 2)\n\n"
    "env.from_collection([1, 2, 3], Types.LONG()).map(halves, Types.DOUBLE()).print()\nenv.execute('fails')",
)
"""Cells of a notebook, the last of which fails in its function."""
UNTIL = "until {condition}; do sleep 1; done"


@dataclass(frozen=True, slots=True)
class Step:
    """``title``: what is tried. ``command``: for bash. ``expected``: a pattern that its output has. ``files``: written before. ``page``: a page of the
    documentation whose first program is written to the file ``program.py``."""

    title: str
    command: str
    expected: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    page: str = ""


def installed(extras: str) -> Step:
    return Step(
        "clone and install",
        f"git clone -q {ROOT} clone && {sys.executable} -m venv venv && venv/bin/pip install -q './clone{extras}' pytest && venv/bin/tidegate --version",
        r"tidegate",
    )


NEW_PROJECT = (
    Step("a project that runs at once", "tidegate new shop && cd shop && python job.py", r"\d> "),
    Step("its tests", "cd shop && python -m pytest -q -p no:cacheprovider", r"\d+ passed"),
)
CLUSTER = Step(
    "a cluster of processes",
    "tidegate cluster start --taskmanagers 2 --slots 1 -D rest.port=0 && tidegate cluster status",
    r"2 TaskManagers",
)
SUBMIT = Step(
    "a job that goes on, with its checkpoints",
    "tidegate run -d endless.py && "
    + UNTIL.format(condition="tidegate list | grep -Eq 'totals +RUNNING.* [1-9][0-9]* *$'")
    + " && tidegate list",
    r"totals +RUNNING",
    {"endless.py": ENDLESS.replace("from pyflink", "from tidegate")},
)
KILL = Step(
    "kill -9 of both TaskManagers",
    "kill -9 $(tidegate cluster status | awk '/taskmanager-/ {print $2}') && "
    + UNTIL.format(condition="tidegate list | grep -Eq 'totals +RUNNING +[0-9].* RUNNING +1 +[0-9]+ *$'")
    + " && tidegate list",
    r"totals +RUNNING",
)
END = Step(
    "the end of the cluster",
    "tidegate cancel $(tidegate list | awk '/totals/ {print $1}') && tidegate cluster stop",
    r"(?i)stopped|ended",
)
SAVEPOINT = (
    Step(
        "a savepoint, and on from it",
        "ID=$(tidegate list | awk '/totals/ {print $1}') && tidegate stop -p savepoints $ID && "
        "tidegate run -d -s $(ls -d savepoints/*) endless.py && "
        + UNTIL.format(condition="tidegate list | grep -q 'totals .*RUNNING'")
        + " && tidegate list",
        r"totals +RUNNING",
    ),
)
AFTERNOONS: Mapping[str, tuple[Step, ...]] = {
    "spark": (
        installed("[sql]"),
        *NEW_PROJECT,
        Step("the query of the tutorial", "python program.py", r"\+I\[Centraal,2,4\.5\]", page="docs/tutorial/from_spark.md"),
        Step("its result, read by Spark", "python read.py", r"Centraal", {"read.py": (
            "from pyspark.sql import SparkSession\n"
            "SparkSession.builder.getOrCreate().read.parquet('out/totals').orderBy('station').show()\n"
        )}),
        CLUSTER,
        SUBMIT,
        KILL,
        END,
    ),
    "flink": (
        installed("[table]"),
        Step("a PyFlink script after replacing the import", f"{MEND} words.py && python words.py", r"\(be,2\)", {"words.py": WORDS}),
        Step("a table script after replacing the import", f"{MEND} taps.py && python taps.py", r"(?s)\+[IU] \|.*station|station", {"taps.py": TAPS}),
        CLUSTER,
        SUBMIT,
        Step(
            "Flink's REST API",
            "curl -s localhost:$(tidegate cluster status | sed -n 's/.*REST port \\([0-9]*\\).*/\\1/p')/jobs/overview",
            r'"state": ?"RUNNING"',
        ),
        *SAVEPOINT,
        END,
    ),
    "notebook": (
        installed("[table,examples]"),
        Step("a kernel", "pip install -q nbclient ipykernel matplotlib pandas && python -m ipykernel install --user --name python3", r"(?i)installed"),
        Step("the example notebook", "cp clone/examples/notebook.ipynb . && jupyter execute notebook.ipynb --timeout=240 && echo all ran", r"all ran"),
        Step("a function that fails", "jupyter execute fails.ipynb --timeout=120 2>&1 | tail -n 30", r"(?s)ZeroDivisionError"),
    ),
}  # fmt: skip


def notebook_of(cells: tuple[str, ...]) -> str:
    """Returns cells as the text of a notebook."""
    kind: JsonObject = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    made = [{**kind, "id": f"cell-{number}", "source": cell} for number, cell in enumerate(cells)]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def program_of(page: Path) -> str:
    """Returns the first program of a page."""
    found = re.search(r"```python run\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise RuntimeError(f"{page} has no program")
    return found[1]


def tried(step: Step, directory: Path, environment: Mapping[str, str]) -> tuple[float, str]:
    """Runs a step; returns its seconds, and what was not as expected, empty if all was."""
    for name, text in step.files.items():
        (directory / name).write_text(text, encoding="utf-8")
    if step.page:
        (directory / "program.py").write_text(program_of(directory / "clone" / step.page), encoding="utf-8")
    began = time.monotonic()
    try:
        ran = subprocess.run(
            ["bash", "-c", step.command],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        return time.monotonic() - began, f"it took longer than {LIMIT_S:g} s:\n{error.output!r}"
    seconds = time.monotonic() - began
    if ran.returncode:
        return seconds, f"it ended with {ran.returncode}:\n{ran.stdout}"
    return seconds, "" if re.search(step.expected, ran.stdout) else f"it did not print {step.expected!r}:\n{ran.stdout}"


@click.command()
@click.argument("person", type=click.Choice(sorted(AFTERNOONS)))
@click.option("--directory", type=click.Path(path_type=Path), help="An empty directory; default: one that is removed.")
def main(person: str, directory: Path | None) -> None:
    """Walks through the first afternoon of a person."""
    with tempfile.TemporaryDirectory(prefix="afternoon-") as made:
        place = directory or Path(made)
        (place / "home").mkdir(parents=True)
        (place / "fails.ipynb").write_text(notebook_of(FAILS), encoding="utf-8")
        outside = {name: text for name, text in os.environ.items() if name not in ("CI", "PYTHONPATH", "VIRTUAL_ENV")}
        environment = {**outside, "HOME": str(place / "home"), "PATH": f"{place}/venv/bin:{outside['PATH']}"}
        table = Table("step", "seconds", "as expected", title=f"the first afternoon: {person}")
        surprises = []
        for step in AFTERNOONS[person]:
            seconds, odd = tried(step, place, environment)
            table.add_row(step.title, f"{seconds:.1f}", "no" if odd else "yes")
            if odd:
                surprises.append(f"{step.title}: {odd}")
        console = Console()
        console.print(table)
        for surprise in surprises:
            console.print(surprise, markup=False)
    sys.exit(1 if surprises else 0)


if __name__ == "__main__":
    main()
