"""A pytest plugin: processor time by the kernel's accounting, for each test with every process below it, and how many processes were started.

Each process that runs tests moves into a control group of its own (``cpuacct`` of version 1, or ``cpu.stat`` of version 2), which its children inherit
and cannot leave: what was orphaned counts as well. Without the right to make one, the process and the children that were waited for are counted.

``--processor-seconds FILE`` writes a JSON object: node id -> seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STARTS: Counter[str] = Counter()
"""What this process started: kind -> how many. Code that starts servers or clusters for tests counts them here."""
_GROUPS = Path("/sys/fs/cgroup")
_PROPERTY = "processor_seconds"
_SHOWN = 10


class ProcessorTime:
    """The processor time of this process and of all that it starts, in seconds."""

    def __init__(self) -> None:
        self._usage, self._left = _own_group()

    def seconds(self) -> float:
        if self._usage is None:
            own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        text = self._usage.read_text()
        if self._usage.name == "cpuacct.usage":
            return int(text) / 1e9
        return int(dict(line.split() for line in text.splitlines())["usage_usec"]) / 1e6

    def close(self) -> None:
        """Moves this process back, and removes the group when nothing else is in it."""
        if self._usage is not None and self._left is not None:
            with contextlib.suppress(OSError):
                self._left.write_text(str(os.getpid()))
                self._usage.parent.rmdir()


def _own_group() -> tuple[Path | None, Path | None]:
    """The file with its usage, and the file of processes of the group that was left; nothing where no group can be made."""
    for line in Path("/proc/self/cgroup").read_text().splitlines() if Path("/proc/self/cgroup").exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers == "cpuacct" or "cpuacct" in controllers.split(","):
            parent, usage = _GROUPS / controllers / path.strip("/"), "cpuacct.usage"
        elif not controllers and (_GROUPS / "cgroup.controllers").exists():
            parent, usage = _GROUPS / path.strip("/"), "cpu.stat"
        else:
            continue
        group = parent / f"tests-{os.getpid()}"
        with contextlib.suppress(OSError):
            group.mkdir()
            (group / "cgroup.procs").write_text(str(os.getpid()))
            return group / usage, parent / "cgroup.procs"
    return None, None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor-seconds", metavar="FILE", help="write the processor seconds of each test there")


def pytest_configure(config: pytest.Config) -> None:
    runs_tests = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    config.pluginmanager.register(_Runner(config) if runs_tests else Gatherer(config), "tidegate-accounting")


class _Account:
    """What one run adds up."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: dict[str, float] = {}
        self.starts: Counter[str] = Counter()
        self.total = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == _PROPERTY and isinstance(value, float):
                self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + value

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.seconds:
            return
        by_file: dict[str, float] = {}
        for node, seconds in self.seconds.items():
            file = node.partition("::")[0].removeprefix("tests/")
            by_file[file] = by_file.get(file, 0.0) + seconds
        started = ", ".join(f"{number} {kind}" for kind, number in sorted(self.starts.items()))
        terminalreporter.write_line(f"{self.total:,.0f} processor seconds{f'; started: {started}' if started else ''}")
        if self.total > 60:
            most = sorted(by_file.items(), key=lambda one: -one[1])[:_SHOWN]
            terminalreporter.write_line("most by file: " + ", ".join(f"{file} {seconds:.0f}" for file, seconds in most))
        target = self.config.getoption("--processor-seconds")
        if target:
            Path(target).write_text(json.dumps({node: round(s, 2) for node, s in self.seconds.items()}, indent=0))


class _Runner(_Account):
    """In a process that runs tests."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self._time = ProcessorTime()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._before = self._time.seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        if call.when == "teardown":
            item.user_properties.append((_PROPERTY, self._time.seconds() - self._before))
        return (yield)

    def pytest_sessionfinish(self) -> None:
        self.starts, self.total = STARTS, self._time.seconds()
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output.update(starts=dict(STARTS), processor_seconds=self.total)

    def pytest_unconfigure(self) -> None:
        self._time.close()


class Gatherer(_Account):
    """In the process that only hands tests out. A run that ends before each test has is interrupted, whatever failed: what failed may pass when it is
    repeated, and the rest would never have run (xdist stops when too many workers have died)."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self._missing: set[str] = set()

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._missing = self._missing or set(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        super().pytest_runtest_logreport(report)
        self._missing.discard(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._missing and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = pytest.ExitCode.INTERRUPTED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        super().pytest_terminal_summary(terminalreporter)
        if self._missing:
            terminalreporter.write_line(f"{len(self._missing):,} tests did not run, such as {min(self._missing)}")

    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", {})
        self.starts.update(output.get("starts", {}))
        self.total += output.get("processor_seconds", 0.0)
