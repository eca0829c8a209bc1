"""How soon a program prints: the README's example with a cluster of its own and on a warm one, beside PySpark's smallest job, in turns.

    python -m benchmarks.first_line [--rounds 5]

A time is from the start of the process to the first line that its job printed. What imports alone cost is measured too, by ``import pyarrow, pandas``.
PySpark starts a JVM with two cores, passes one number through a Python worker and prints it. Each program finds its modules compiled, as an installation
has them, whatever ``PYTHONDONTWRITEBYTECODE`` says here: the first round, which does not count, compiles them.
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
LIMIT_S = 300.0
SPARK = """
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
print("2>", SparkContext(conf=conf).parallelize([1], 1).map(lambda number: number + 1).collect())
"""
IMPORTS = "import pyarrow, pandas; print('2> nothing')"
NAMES = ("a cluster of its own", "the warm cluster", "PySpark", "imports alone")


def readme_example() -> str:
    """Returns the program of the README's first example."""
    found = re.search(r"```python run\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise RuntimeError("the README has no example")
    return found[1]


@dataclass(frozen=True, slots=True)
class FirstLine:
    """How one run went: seconds of the clock until its first line, and processor seconds of the program and the processes that it started, to their end."""

    seconds: float
    cpu_s: float


def first_line(program: Path, environment: Mapping[str, str]) -> FirstLine:
    """Runs a program to its end."""
    before = _cpu_s()
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(program)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - began
        process.communicate(timeout=LIMIT_S)
    if not line.startswith("2>") or process.returncode:
        raise RuntimeError(f"{program.name} printed {line!r} and ended with {process.returncode}")
    return FirstLine(seconds, _cpu_s() - before)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def keep(environment: Mapping[str, str], *options: str) -> None:
    command = [sys.executable, "-m", "tidegate.cli.main", "cluster", "keep", *options]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)


def measure(directory: Path, rounds: int) -> dict[str, list[FirstLine]]:
    """Returns the seconds of each round, by name."""
    programs = dict(zip(NAMES, (readme_example(), readme_example(), SPARK, IMPORTS), strict=True))
    for number, text in enumerate(programs.values()):
        (directory / f"{number}.py").write_text(text, encoding="utf-8")
    environment = {name: text for name, text in os.environ.items() if name not in ("CI", "PYTHONDONTWRITEBYTECODE")}
    environment |= {"PYTHONPYCACHEPREFIX": str(directory / "compiled")}
    environment |= {"TIDEGATE_HOME": str(directory / "home"), "PYTHONPATH": str(ROOT)}
    environment |= {"TIDEGATE_SPARK_CLASS_ARCHIVE": "false", "PYSPARK_PYTHON": sys.executable}
    alone = {**environment, "TIDEGATE_WARM_CLUSTER_ENABLED": "false"}
    found: dict[str, list[FirstLine]] = {name: [] for name in NAMES}
    keep(environment, "--slots", "2")
    try:
        for round_number in range(rounds + 1):
            for number, name in enumerate(NAMES):
                line = first_line(directory / f"{number}.py", alone if number == 0 else environment)
                if round_number:  # in the first the files of Python and Java are read, and modules compiled
                    found[name].append(line)
    finally:
        keep(environment, "--stop")
    return found


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True)
def main(rounds: int) -> None:
    before = psutil.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        found = measure(Path(directory), rounds)
    table = Table(
        "", "median s", "lowest", "highest", "ratio to PySpark", "processor s", title="to the first line of a job"
    )
    for name, lines in found.items():
        seconds = [line.seconds for line in lines]
        ratio = statistics.median(one / other.seconds for one, other in zip(seconds, found["PySpark"], strict=True))
        cpu_s = statistics.median(line.cpu_s for line in lines)
        numbers = (statistics.median(seconds), min(seconds), max(seconds), ratio, cpu_s)
        table.add_row(name, *(f"{number:.2f}" for number in numbers))
    console = Console()
    console.print(table)
    console.print(f"load average before {before:.1f}, after {psutil.getloadavg()[0]:.1f}; {os.cpu_count()} processors")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "first_line.json").write_text(
        json.dumps({"load": before, **{name: list(map(asdict, lines)) for name, lines in found.items()}}, indent=1)
    )


if __name__ == "__main__":
    main()
