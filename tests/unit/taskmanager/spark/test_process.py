from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from tidegate.common.records.batch import RecordsBatch
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import SinkContext
from tidegate.connectors.print_sink import PrintSink
from tidegate.taskmanager.spark.daemon import PREIMPORTED, prepare_path
from tidegate.taskmanager.spark.process import PrintedLines, step_back


def test_only_whole_lines_are_handed_on() -> None:
    told: list[str] = []
    lines = PrintedLines(told.append)
    print("one", file=lines)
    print("tw", end="", file=lines)
    print("o\nthree\nfo", end="", file=lines)
    assert "".join(told) == "one\ntwo\nthree\n"
    assert all(text.endswith("\n") for text in told)
    lines.finish()
    lines.finish()
    assert "".join(told) == "one\ntwo\nthree\nfo\n"


def test_a_sink_that_prints_finds_the_way_around_the_name_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    bare: list[str] = []
    monkeypatch.setattr(sys, "stdout", PrintedLines(named.append, PrintedLines(bare.append)))
    writer = PrintSink("id").make_writer(SinkContext(1, 4, "job", "attempt", "operator"), [], Types.LONG())
    writer.write(RecordsBatch([7]))
    print("seven")
    assert (named, bare) == (["seven\n"], ["id:2> 7\n"])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a thread has no priority of its own here")
def test_one_thread_steps_back_and_no_other() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    found: list[int] = []

    def run(nice: int) -> None:
        step_back(nice)
        found.append(os.getpriority(os.PRIO_PROCESS, 0) - before)

    for nice in (0, 1):
        thread = threading.Thread(target=run, args=(nice,))
        thread.start()
        thread.join()
    assert found == [0, 1]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_archives_leave_the_path() -> None:
    assert prepare_path(["/a/pyspark.zip", "/b", "/c.jar", "/d/py4j-src.zip"]) == ["/b"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel tells the number of threads on Linux only")
def test_the_daemon_has_one_thread_after_its_imports() -> None:
    code = (
        "import importlib, os\n"
        "from tidegate.taskmanager.spark import daemon\n"
        "os.environ.update(daemon.ENVIRONMENT)\n"
        "for name in daemon.PREIMPORTED: importlib.import_module(name)\n"
        "print(daemon.thread_count())\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "1\n", told.stderr
    assert "tidegate.taskmanager.spark.worker" in PREIMPORTED


def test_the_daemon_begins_again_with_what_the_c_library_reads_at_its_start() -> None:
    code = (
        "import os\n"
        "from tidegate.taskmanager.spark import daemon\n"
        "daemon.set_environment()\n"
        "print(os.getpid(), all(name in os.environ for name in daemon.ENVIRONMENT), os.environ['MALLOC_ARENA_MAX'])\n"
    )
    environment = {**os.environ, "MALLOC_ARENA_MAX": "7"}  # a user's own stays
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    told, _ = process.communicate(timeout=60)
    assert told == f"{process.pid} True 7\n"


def test_a_process_dies_with_its_parent() -> None:
    armed = "from tidegate.taskmanager.spark.process import die_with_parent; die_with_parent()"
    child = f"import signal; {armed}; print(flush=True); signal.pause()"
    parent = (
        "import subprocess, sys, signal\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert _ends(pid)


def _ends(pid: int) -> bool:
    """Whether a process that is not our child ends within ten seconds."""
    ended = threading.Event()
    for _ in range(500):
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        ended.wait(0.02)
    return False
