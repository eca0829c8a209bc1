"""Pictures of the figures, by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
import numpy.typing as npt

matplotlib.use("Agg")

from matplotlib import pyplot as plt

from benchmarks.keyed_window import TIMED_INTERVAL_MS, Runs

if TYPE_CHECKING:
    from benchmarks.kafka import Figures as KafkaFigures
    from benchmarks.state import Figures


def keyed_window(runs: Runs, path: Path) -> None:
    """Rates of every run side by side, and the distribution of checkpoint times."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    rates = {
        "pyarrow\nin memory": runs.pyarrow,
        "tidegate\nend to end": runs.tidegate,
        **{f"parallelism {p},\nno checkpoints": pairs.without.tidegate for p, pairs in runs.pairs.items()},
    }
    left.boxplot(list(rates.values()), vert=False, tick_labels=list(rates))
    left.set_xlim(left=0)
    left.set_xlabel("million rows per second")
    left.set_title(f"keyed windows, ratio of medians {runs.ratio:.2f}")
    drawn = {f"{load} load, every {TIMED_INTERVAL_MS} ms": found for load, found in runs.timed_checkpoints_ms.items()}
    for parallelism, pairs in runs.pairs.items():
        drawn[f"full load, parallelism {parallelism}, every second"] = pairs.with_them.checkpoints_ms
    for label, found in drawn.items():
        times = sorted(found)
        right.step(times, [(i + 1) / len(times) for i in range(len(times))], where="post", label=label)
    right.axvline(20, color="grey", linewidth=0.8, linestyle="--")
    right.axvline(100, color="grey", linewidth=0.8, linestyle=":")
    right.legend()
    right.set_xlim(left=0)
    right.set_xlabel("ms from trigger to durable _metadata")
    right.set_ylabel("share of checkpoints")
    right.set_title("exactly-once checkpoints")
    right.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def control_plane(subtasks: list[int], us_per_subtask: list[float], peak_mib: list[float], path: Path) -> None:
    """What a checkpoint costs the JobManager, for each subtask, and what it holds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for axes, values, label, title in (
        (left, us_per_subtask, "us of CPU for each subtask", "a checkpoint, request to last confirm"),
        (right, peak_mib, "MiB", "peak memory, simulated TaskManagers included"),
    ):
        axes.plot(subtasks, values, marker="o")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("subtasks")
        axes.set_ylabel(label)
        axes.set_title(title)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def records(rates: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Rates of every run, system beside system, a panel for each case."""
    figure, panels = plt.subplots(1, len(rates), figsize=(4 * len(rates), 3.5), constrained_layout=True, squeeze=False)
    for axes, (case, systems) in zip(panels[0], rates.items(), strict=True):
        names = [name.replace(", ", ",\n") for name in systems]
        axes.boxplot([[rate / 1e3 for rate in found] for found in systems.values()], tick_labels=names)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("thousand records per second")
        axes.set_title(case)
        axes.tick_params(axis="x", labelsize=7)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def nexmark(rates: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Medians by query, with the range of the runs."""
    figure, axes = plt.subplots(figsize=(1 + 0.8 * len(rates), 4), constrained_layout=True)
    systems = list(dict.fromkeys(name for found in rates.values() for name in found))
    width = 0.8 / max(1, len(systems))
    for place, system in enumerate(systems):
        found = [np.array(of_query.get(system, [np.nan])) for of_query in rates.values()]
        middles = np.array([np.median(one) for one in found])
        spread = [middles - [one.min() for one in found], np.array([one.max() for one in found]) - middles]
        at = np.arange(len(rates)) + width * place
        axes.bar(at, middles, width=width, yerr=np.array(spread), label=system, capsize=2)
    axes.set_xticks(np.arange(len(rates)) + width / 2 * (len(systems) - 1), list(rates))
    axes.set_yscale("log")
    axes.set_ylabel("million events per second")
    axes.set_title("Nexmark")
    axes.legend()
    axes.grid(alpha=0.3, axis="y")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def latency(found: dict[str, npt.NDArray[np.float64]], path: Path) -> None:
    """The share of rows below each latency, by path."""
    figure, axes = plt.subplots(figsize=(7, 4), constrained_layout=True)
    shares = np.linspace(0, 100, 1001)
    for name, times in found.items():
        axes.plot(np.percentile(times, shares), shares / 100, label=name)
    for limit_ms, style in ((10, "--"), (50, ":")):
        axes.axvline(limit_ms, color="grey", linewidth=0.8, linestyle=style)
    axes.set_xscale("log")
    axes.set_xlabel("ms from source to the output of the operator")
    axes.set_ylabel("share of rows")
    axes.set_title("latency at half of the maximum load")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def unaligned(names: list[str], times_ms: list[list[float]], results: Path) -> None:
    """Checkpoint times of each case, side by side."""
    figure, axes = plt.subplots(figsize=(8, 4), constrained_layout=True)
    axes.boxplot(times_ms, vert=False, tick_labels=names)
    axes.set_xscale("log")
    axes.set_xlabel("ms from trigger to durable _metadata")
    axes.set_title("checkpoints with an idle sink, and with one of 10 ms a record")
    axes.grid(alpha=0.3)
    figure.savefig(results / "unaligned.png", dpi=120)
    plt.close(figure)


def state(figures: Figures, path: Path) -> None:
    """Every step around the snapshot, at the rate and at full load; then rates of bytes and sizes of increments."""
    figure, axes = plt.subplots(1, 4, figsize=(18, 4), constrained_layout=True)
    for axis, steps, end, name in (
        (axes[0], figures.calm, figures.snapshot_ms, "100,000 changes a second"),
        (axes[1], figures.full, figures.full_snapshot_ms, "full load"),
    ):
        axis.plot([at / 1e3 for at, _ in steps], [ms for _, ms in steps], ".", markersize=3)
        axis.axvspan(0, end / 1e3, alpha=0.15, label="snapshot")
        axis.axhline(20, color="gray", linewidth=0.8)
        axis.set_xlabel("s from the freeze")
        axis.set_ylabel("ms of each step")
        axis.set_ylim(bottom=0)
        axis.set_title(f"{figures.keys:,} keys, {name}")
        axis.legend()
    rates = {
        "snapshot": figures.write_rate,
        "write+fsync": figures.plain_write_rate,
        "restore": figures.restore_rate,
        "read": figures.plain_read_rate,
    }
    axes[2].bar(list(rates), [rate / 1e6 for rate in rates.values()])
    axes[2].set_ylabel("MB/s")
    axes[2].set_title(f"{figures.snapshot_bytes / 1e6:,.0f} MB")
    axes[3].bar(range(1, len(figures.increments) + 1), [100 * b / figures.snapshot_bytes for b in figures.increments])
    axes[3].axhline(5, color="gray", linewidth=0.8)
    axes[3].set_xlabel("incremental checkpoints, 1 % of the keys changed before each")
    axes[3].set_ylabel("% of a full one")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def kafka(found: list[KafkaFigures], path: Path) -> None:
    """Rates for each core by size of record, and the distribution of latencies."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for place, one in enumerate(found):
        sizes = list(one.rates_per_core)
        left.bar([n + 0.2 * place for n in range(len(sizes))], [one.rates_per_core[s] / 1e3 for s in sizes], width=0.2)
        left.set_xticks(range(len(sizes)), [f"{size} B" for size in sizes])
        times = sorted(one.latencies_ms)
        right.step(times, [(i + 1) / len(times) for i in range(len(times))], where="post", label=one.system)
    left.legend([one.system for one in found])
    left.set_ylabel("thousand records a second for each core")
    left.set_title("Kafka to Kafka")
    right.axvline(300, color="grey", linewidth=0.8, linestyle="--")
    right.legend()
    right.set_xlim(left=0)
    right.set_xlabel("ms from produced to readable, a checkpoint every 100 ms")
    right.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def failover(strikes: dict[str, dict[str, list[dict[str, float]]]], path: Path) -> None:
    """Every strike a point: by what was killed, the next checkpoint and the longest gap of each system."""
    measures = {
        "checkpoint_s": "s to the next checkpoint",
        "gap_s": "s, longest gap in output",
        "restarted": "subtasks restarted",
    }
    figure, panels = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for axes, (kind, systems) in zip(panels, strikes.items(), strict=True):
        for place, (system, found) in enumerate(systems.items()):
            for number, measure in enumerate(measures):
                heights = [one[measure] for one in found]
                across = number + 0.25 * place + np.linspace(0, 0.15, len(heights))
                axes.plot(across, heights, ".", color=f"C{place}", label=system if number == 0 else None)
        axes.set_xticks(np.arange(len(measures)) + 0.2, list(measures.values()), fontsize=7)
        axes.set_ylim(bottom=0)
        axes.set_title(f"a {kind} is killed")
        axes.legend()
        axes.grid(alpha=0.3, axis="y")
    figure.savefig(path, dpi=120)
    plt.close(figure)
