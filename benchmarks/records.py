"""Functions of one record, beside PyFlink: the same program on both, alternating runs, answers compared.

    python -m benchmarks.records [--case map ...] [--repeats 5] [--seconds 10] [--without-flink]

Both run on clusters that are up and warm, with parallelism 2 and an exactly-once checkpoint every second. Timed is from the
moment when the last function was opened to the end of the job. A rate per core is of the CPU time of all subtask processes.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import plots
from benchmarks.cluster import ROOT, BenchCluster
from benchmarks.flink_cluster import FlinkCluster

PARALLELISM = 2
INTERVAL_MS = 1_000
CASES = ("map", "chain", "reduce", "process", "window")
JOB = "benchmarks/records_job.py"
RESULTS = Path(__file__).resolve().parent / "results"
TIDEGATE, PROCESS, THREAD = "tidegate", "PyFlink, process mode", "PyFlink, thread mode"
FIRST_RATE = {TIDEGATE: 200_000, PROCESS: 5_000, THREAD: 10_000}
"""Records of the warm-up, by the second; what it measures gives the length of the runs."""


@dataclass
class Runs:
    """Of one case. Rates in records a second, by system."""

    records: dict[str, int] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)
    per_core: list[float] = field(default_factory=list)
    """tidegate's."""

    @property
    def ratio(self) -> float | None:
        """To the better mode of PyFlink."""
        others = [statistics.median(rates) for name, rates in self.rates.items() if name != TIDEGATE]
        return statistics.median(self.rates[TIDEGATE]) / max(others) if others else None


class _Cpu(threading.Thread):
    """CPU seconds of the Python processes below some process, the ended ones included (to a few hundredths)."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = psutil.Process(root)
        self._before = self._look()
        self._seen: dict[int, float] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.05):
            self._seen.update(self._look())

    def total(self) -> float:
        self._over.set()
        self.join()
        return sum(seconds - self._before.get(pid, 0.0) for pid, seconds in self._seen.items())

    def _look(self) -> dict[int, float]:
        found = {}
        for process in self._root.children(recursive=True):
            try:
                if "python" in process.name():
                    times = process.cpu_times()
                    found[process.pid] = times.user + times.system
            except psutil.Error:
                pass  # it has just ended
        return found


class Systems:
    """Both clusters. ``run`` gives the seconds of a run, what it wrote, and the CPU seconds of tidegate's subtasks."""

    def __init__(self, tidegate: BenchCluster, flink: FlinkCluster | None) -> None:
        self._tidegate = tidegate
        self._flink = flink
        self._runs = 0

    def names(self) -> list[str]:
        return [TIDEGATE] if self._flink is None else [TIDEGATE, PROCESS, THREAD]

    def run(self, name: str, case: str, records: int) -> tuple[float, list[str], float]:
        self._runs += 1
        directory = self._tidegate.directory if name == TIDEGATE or self._flink is None else self._flink.directory
        output = directory / f"out-{self._runs}"
        arguments = [case, str(records), str(PARALLELISM), str(output), str(INTERVAL_MS)]
        cpu_s = 0.0
        if name == TIDEGATE:
            cpu = _Cpu(self._tidegate.task_manager_pid)
            cpu.start()
            job_id = self._tidegate.run(JOB, "tidegate", *arguments)
            finished_ms = self._tidegate.wait(job_id).state_timestamps_ms["FINISHED"]
            cpu_s = cpu.total()
        else:
            assert self._flink is not None
            mode = f"python.execution-mode={'thread' if name == THREAD else 'process'}"
            job_id = self._flink.run_python(ROOT / JOB, "pyflink", *arguments, mode)
            finished_ms = self._flink.wait(job_id)["FINISHED"]
        opened = [float(path.read_text()) for path in directory.glob(f"{output.name}.opened-*")]
        files = [path for path in output.rglob("*") if path.is_file() and ".inprogress" not in path.name]
        lines = sorted(line for path in files for line in path.read_text().splitlines())
        return finished_ms / 1000 - max(opened), lines, cpu_s


def measure(systems: Systems, case: str, repeats: int, seconds: float) -> Runs:
    """Raises ``RuntimeError`` when the answers differ."""
    runs = Runs()
    for name in systems.names():
        records = int(FIRST_RATE[name] * 4)
        took, _, _ = systems.run(name, case, records)
        runs.records[name] = _rounded(records / took * seconds)
    common = min(runs.records.values())
    answers = {name: systems.run(name, case, common)[1] for name in systems.names()}
    if any(answer != answers[TIDEGATE] for answer in answers.values()):
        raise RuntimeError(f"{case}: the answers differ: { {name: answer[:5] for name, answer in answers.items()} }")
    for _ in range(repeats):
        for name in systems.names():
            took, _, cpu_s = systems.run(name, case, runs.records[name])
            runs.rates.setdefault(name, []).append(runs.records[name] / took)
            if name == TIDEGATE:
                runs.per_core.append(runs.records[name] / cpu_s)
    return runs


def _rounded(records: float) -> int:
    return max(10_000, int(records) // 10_000 * 10_000)


def table_of(found: dict[str, Runs]) -> Table:
    table = Table("case", "system", "median records/s", "min", "max", "a core", "tidegate is")
    for case, runs in found.items():
        for name, rates in runs.rates.items():
            middle = statistics.median(rates)
            core = f"{statistics.median(runs.per_core):,.0f}" if name == TIDEGATE else ""
            ratio = "" if name == TIDEGATE else f"{statistics.median(runs.rates[TIDEGATE]) / middle:.1f} x"
            table.add_row(case, name, f"{middle:,.0f}", f"{min(rates):,.0f}", f"{max(rates):,.0f}", core, ratio)
    return table


def report(
    console: Console,
    results: Path,
    *,
    cases: tuple[str, ...] = CASES,
    repeats: int,
    seconds: float,
    without_flink: bool = False,
) -> None:
    """Measures, prints a table and draws it."""
    found: dict[str, Runs] = {}
    with ExitStack() as stack:
        tidegate = stack.enter_context(BenchCluster(PARALLELISM))
        flink = None if without_flink else stack.enter_context(FlinkCluster(PARALLELISM))
        told = "" if flink is None else f"Flink: {flink.options}; "
        console.print(f"{told}tidegate: defaults; parallelism 2, checkpoints every second")
        systems = Systems(tidegate, flink)
        for case in cases:
            found[case] = measure(systems, case, repeats, seconds)
            console.print(table_of({case: found[case]}))
    console.print(table_of(found))
    results.mkdir(exist_ok=True)
    (results / "records.json").write_text(json.dumps({case: asdict(runs) for case, runs in found.items()}, indent=1))
    plots.records({case: runs.rates for case, runs in found.items()}, results / "records.png")
    console.print(f"drawn in {results / 'records.png'}")


@click.command(help=__doc__)
@click.option("--case", "cases", type=click.Choice(CASES), multiple=True, help="Default: all.")
@click.option("--repeats", default=5, show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="Of each run, about.")
@click.option("--without-flink", is_flag=True)
def main(cases: tuple[str, ...], repeats: int, seconds: float, without_flink: bool) -> None:
    report(Console(), RESULTS, cases=cases or CASES, repeats=repeats, seconds=seconds, without_flink=without_flink)


if __name__ == "__main__":
    main()
