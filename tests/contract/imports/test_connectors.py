"""One rule for imports of connectors, ``from tidegate.connectors.X import ...``, and what a wrong one says."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tidegate.common.names.places import CONNECTORS, ELSEWHERE, names_of

PACKAGE = ROOT / "tidegate" / "connectors"
PYFLINK = sorted(
    path.stem
    for path in (ROOT / "tidegate" / "datastream" / "connectors").glob("[!_]*.py")
    if "__all__" in path.read_text(encoding="utf-8")  # the others are ours
)
INNER = frozenset({"collect", "formats"})
"""Folders that no program imports: what `execute_and_collect` is made of, and formats, which are in `tidegate.datastream.formats`."""


@pytest.mark.parametrize("module", CONNECTORS)
def test_every_name_of_a_connector_is_imported_from_it(module: str) -> None:
    place = importlib.import_module(f"tidegate.connectors.{module}")
    for name, home in names_of(module).items():
        assert getattr(place, name) is getattr(importlib.import_module(home), name), name
    if place.__file__ and "__getattr__" in vars(place):
        assert sorted(place.__all__) == sorted(names_of(module))


def test_every_folder_of_a_connector_follows_the_rule() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders - INNER <= set(CONNECTORS)


def test_every_source_and_sink_that_programs_build_has_a_place() -> None:
    """What PyFlink's paths give out of our connectors is there under our paths, too."""
    ours = {name for module in CONNECTORS for name in names_of(module)}
    builders = ("KafkaSource", "KafkaSink", "FileSource", "FileSink", "HybridSource", "NumberSequenceSource")
    assert set(builders) <= ours


@pytest.mark.parametrize("module", PYFLINK)
def test_pyflink_s_paths_go_on_working(module: str) -> None:
    place = importlib.import_module(f"tidegate.datastream.connectors.{module}")
    for name in place.__all__:
        assert getattr(place, name) is not None


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "from tidegate.connectors.kafka import KafkaSorce",
            "cannot import name 'KafkaSorce' from 'tidegate.connectors.kafka'; did you mean KafkaSource?",
        ),
        (
            "from tidegate.connectors.kafka import FileSource",
            "cannot import name 'FileSource' from 'tidegate.connectors.kafka'; say: from tidegate.connectors.files import FileSource",
        ),
        (
            "from tidegate.connectors.kafak import KafkaSource",
            "No module named 'tidegate.connectors.kafak'; say: from tidegate.connectors.kafka import KafkaSink, KafkaSource, ...",
        ),
        (
            "import tidegate.connectors.postgresql",
            "No module named 'tidegate.connectors.postgresql'; say: from tidegate.connectors.postgres import PostgresSink",
        ),
        (
            "from tidegate.connectors import KafkaSource",
            "cannot import name 'KafkaSource' from 'tidegate.connectors'; say: from tidegate.connectors.kafka import KafkaSource",
        ),
        (
            "from tidegate.datastream.connectors.kafka import KafkaSnk",
            "cannot import name 'KafkaSnk' from 'tidegate.datastream.connectors.kafka'; did you mean KafkaSink?",
        ),
        (
            "from tidegate.datastream.connectors.filesystem import FileSource",
            "No module named 'tidegate.datastream.connectors.filesystem'; say: from tidegate.connectors.files import FileSink, FileSource, ...",
        ),
        (
            "from tidegate.connectors.jdbc import JdbcSink",
            f"cannot import name 'JdbcSink' from 'tidegate.connectors.jdbc'; {ELSEWHERE['JdbcSink']}",
        ),
        (
            "from tidegate.connectors.mqtt import MqttSource",
            "No module named 'tidegate.connectors.mqtt'; tidegate.connectors has delta, files, generators, hybrid, iceberg, jdbc, "
            "kafka, postgres, print_sink, source, spark",
        ),
        (
            "from tidegate.datastream import ProcesFunction",
            "cannot import name 'ProcesFunction' from 'tidegate.datastream'; did you mean ProcessFunction?",
        ),
    ],
)
def test_a_wrong_import_names_the_right_one(statement: str, said: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert str(caught.value) == said


def test_modules_still_answer_whether_they_have_a_name() -> None:
    """`hasattr` and pickle ask every module for names, and take ``AttributeError`` alone."""
    kafka = importlib.import_module("tidegate.connectors.kafka")
    assert not hasattr(kafka, "KafkaSorce")
    with pytest.raises(AttributeError, match=r"did you mean KafkaSource\?"):
        _ = kafka.KafkaSorce
    assert not hasattr(importlib.import_module("tidegate.connectors"), "__wrapped__")


KAFKA = """
from tidegate.connectors.kafka import KafkaSource
KafkaSource.builder().set_bootstrap_servers("localhost:1").set_topics("t").build()
"""
POSTGRES = """
from tidegate.common.typeinfo import Types
from tidegate.connectors.postgres import PostgresSink
from tidegate.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([(1,)], Types.ROW_NAMED(["n"], [Types.LONG()])).sink_to(PostgresSink("host=localhost", "t"))
"""
AVRO = """
from tidegate.datastream.formats.avro import AvroSchema
AvroSchema.parse_string('"string"')
"""


@pytest.mark.parametrize(
    ("program", "packages", "extra"),
    [
        (KAFKA, ["confluent_kafka", "kafka"], "kafka"),
        (POSTGRES, ["psycopg"], "postgres"),
        (AVRO, ["fastavro"], "avro"),
    ],
)
def test_without_its_package_a_connector_names_the_extra(
    program: str, packages: list[str], extra: str, tmp_path: Path
) -> None:
    """The import works, so that one module may name several connectors; the first use says what to install."""
    missing = "import sys\n" + "".join(f"sys.modules[{package!r}] = None\n" for package in packages)
    script = tmp_path / "job.py"
    script.write_text(missing + program, encoding="utf-8")
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert f"pip install 'tidegate[{extra}]'" in ended.stderr.splitlines()[-1]
