"""The files of a project that `tidegate new` creates: a job that runs at once, data for it, and tests. Pure: it writes nothing."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from string import Template

from tidegate.model.errors import Misuse
from tidegate.wire.versions import VERSION

__all__ = ["check_name", "files_of"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([._-][A-Za-z0-9]+)*")
"""A valid name of a Python project that begins with a letter."""
_LONGEST = 64
"""The longest name. Chosen: a name is shown in lists."""
_TAKEN = ("job", "pyarrow", "pyspark", "pytest", "tests", "tidegate")
"""Names that are refused: a folder of this name would hide a package that the project imports."""

_JOB = '''\
"""$name: the revenue of each shop, minute by minute, and an alarm for each shop that has sold for 100.00 or more.

    python job.py                      runs it here, on a cluster of its own
    tidegate run job.py                runs it on a cluster that you started
"""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from tidegate.common import Duration, Time, Types, WatermarkStrategy
from tidegate.connectors.files import FileSource
from tidegate.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.datastream.window import TumblingEventTimeWindows

ORDERS = Path(__file__).parent / "data" / "orders.csv"
SCHEMA = pa.schema([("at", pa.timestamp("ms", "UTC")), ("shop", pa.string()), ("cents", pa.int64())])
SALE = Types.TUPLE([Types.STRING(), Types.LONG()])  # a shop, and what it sold for


def revenue(orders):
    """For each shop and minute: how many orders, and their sum."""
    minutes = orders.key_by("shop").window(TumblingEventTimeWindows.of(Time.minutes(1)))
    return minutes.agg(count().alias("orders"), sum("cents").alias("cents")).uid("revenue")


def line(row):
    """What is printed of a row of ``revenue``. Times of windows are milliseconds since 1970."""
    minute = datetime.fromtimestamp(row["window_start"] / 1000, UTC)
    return f"{minute:%H:%M} {row['shop']}: {row['orders']} orders, {row['cents'] / 100:.2f}"


class Alarm(KeyedProcessFunction):
    """Says once that a shop has sold for at least so much. Its sum is state: it survives failures, and restarts."""

    def __init__(self, cents):
        self.cents = cents

    def open(self, runtime_context):
        self.sold = runtime_context.get_state(ValueStateDescriptor("sold", Types.LONG()))

    def process_element(self, sale, ctx):
        before = self.sold.value() or 0
        self.sold.update(before + sale[1])
        if before < self.cents <= before + sale[1]:
            yield f"{sale[0]} has sold for {(before + sale[1]) / 100:.2f}"


def alarms(sales, cents=100_00):
    return sales.key_by(lambda sale: sale[0], Types.STRING()).process(Alarm(cents), Types.STRING()).uid("alarms")


def read(env, path=ORDERS):
    """The orders of a file, which may be up to ten seconds late."""
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_column("at")
    return env.from_source(FileSource.for_csv(str(path), schema=SCHEMA), times, "orders").uid("orders")


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(10_000)  # in ms
    orders = read(env)
    revenue(orders).map(line, Types.STRING()).print()
    alarms(orders.map(lambda order: (order["shop"], order["cents"]), SALE)).print()
    env.execute("$name")


if __name__ == "__main__":
    main()
'''
_TESTS = '''\
"""The job's parts in this process, in milliseconds, and the job on a cluster."""

from job import SALE, alarms, read, revenue

from tidegate.datastream import StreamExecutionEnvironment
from tidegate.testing import OperatorHarness


def test_a_shop_raises_its_alarm_once():
    with OperatorHarness(lambda sales: alarms(sales, cents=1000), SALE) as harness:
        harness.push(("north", 900))
        harness.push(("south", 400))
        assert harness.take() == []
        harness.push(("north", 200))
        harness.push(("north", 5000))
        assert harness.take() == ["north has sold for 11.00"]


def test_the_sum_of_a_shop_survives_a_restart():
    with OperatorHarness(lambda sales: alarms(sales, cents=1000), SALE) as harness:
        harness.push(("north", 900))
        snapshot = harness.snapshot()
    with OperatorHarness(lambda sales: alarms(sales, cents=1000), SALE, restore=snapshot) as again:
        again.push(("north", 100))
        assert again.output == ["north has sold for 10.00"]


def test_the_revenue_on_a_cluster(tidegate_cluster):
    """`tidegate_cluster` is a fixture of tidegate.testing: it starts once, in some seconds, for all tests that ask for it."""
    env = StreamExecutionEnvironment.get_execution_environment()
    with revenue(read(env)).execute_and_collect() as results:
        rows = [row.as_dict() for row in results]
    assert sum(row["cents"] for row in rows if row["shop"] == "north") == 14520
    assert sum(row["orders"] for row in rows) == 12
'''
_CONFTEST = """\
pytest_plugins = ["tidegate.testing.plugin"]
"""
_DATA = """\
at,shop,cents
2026-01-01T12:00:03Z,north,1250
2026-01-01T12:00:11Z,south,800
2026-01-01T12:00:24Z,north,3990
2026-01-01T12:00:19Z,south,2100
2026-01-01T12:00:47Z,west,550
2026-01-01T12:01:02Z,north,1780
2026-01-01T12:01:15Z,west,4999
2026-01-01T12:01:33Z,south,1200
2026-01-01T12:01:58Z,north,5500
2026-01-01T12:02:06Z,west,2450
2026-01-01T12:02:21Z,north,2000
2026-01-01T12:02:40Z,south,990
"""
_README = """\
# $name

A job of tidegate: the revenue of each shop, minute by minute, from `data/orders.csv`, and an alarm for each shop that has sold for 100.00 or more.

```console
$$ python job.py          # runs it here, on a cluster of its own, and prints
$$ pytest                 # two tests in milliseconds, and one on a cluster
```

On a cluster that stays, with a page at http://localhost:8081:

```console
$$ tidegate cluster start
$$ tidegate run job.py    # what it prints stands in the output of the TaskManager
$$ tidegate cluster stop
```

| file | has |
|---|---|
| `job.py` | the job: its source, a window, a function with state |
| `data/orders.csv` | twelve orders |
| `tests/test_job.py` | its tests |

Next: read from Kafka or write to PostgreSQL (guide "Connectors"), state ("Keyed state"), tests that kill processes ("Testing").
"""
_PYPROJECT = """\
[project]
name = "$name"
version = "0.1.0"
description = "A job of tidegate"
requires-python = ">=3.11"
dependencies = ["tidegate>=$version"]

[project.optional-dependencies]
test = ["pytest>=8"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
"""
_GITIGNORE = """\
__pycache__/
.pytest_cache/
.venv/
"""


def check_name(name: str) -> None:
    """Raises ``Misuse`` for what is no name of a project, with what to do."""
    why = ""
    if len(name) > _LONGEST:
        why = f"it is longer than {_LONGEST} characters"
    elif not _NAME.fullmatch(name):
        why = "a name begins with a letter, and has letters, digits and single '-', '_' or '.' between them"
    elif name.lower() in _TAKEN or name in sys_names():
        why = "a folder of this name would hide the Python module of the same name"
    elif keyword.iskeyword(name):
        why = "it is a reserved word of Python"
    if why:
        raise Misuse(f"{name!r} cannot be the name of a project: {why}")


def sys_names() -> frozenset[str]:
    """Returns the names of the modules of Python's standard library."""
    import sys

    return frozenset(sys.stdlib_module_names)


def files_of(name: str) -> Mapping[str, str]:
    """Returns the text of each file of a new project, by its path below the project's folder."""
    return dict(_files(name))


def _files(name: str) -> Iterator[tuple[str, str]]:
    texts = {
        "job.py": _JOB,
        "data/orders.csv": _DATA,
        "tests/conftest.py": _CONFTEST,
        "tests/test_job.py": _TESTS,
        "README.md": _README,
        "pyproject.toml": _PYPROJECT,
        ".gitignore": _GITIGNORE,
    }
    for path, text in texts.items():
        is_filled = path in ("job.py", "README.md", "pyproject.toml")
        yield path, Template(text).substitute(name=name, version=VERSION) if is_filled else text
