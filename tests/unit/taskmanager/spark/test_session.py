"""What is shown of Spark's words when its Python daemon does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate
from tidegate.model.errors import ConfigurationError
from tidegate.taskmanager.spark.cluster.session_settings import (
    SessionSettings,
    _path_of_executors,
    in_given_jvm,
    session_properties,
)
from tidegate.taskmanager.spark.session import no_workers, why_no_workers

SAID = """An error occurred while calling o31.count.
: org.apache.spark.SparkException: Job aborted due to stage failure
Error from python worker:
  Traceback (most recent call last):
    File "daemon.py", line 67, in main
      importlib.import_module(module)
  ModuleNotFoundError: No module named 'numpy'
PYTHONPATH was:
  /opt/python/pyspark.zip:/opt/jars/spark-core.jar
org.apache.spark.SparkException: EOFException occurred while reading the port number
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:1)
"""


def test_the_last_words_of_the_daemon_are_the_reason() -> None:
    assert why_no_workers(SAID) == "ModuleNotFoundError: No module named 'numpy'"


def test_where_the_daemon_said_nothing_sparks_own_words_are() -> None:
    silent = "first\nError from python worker:\n  \nPYTHONPATH was:\n  a.zip\nSparkException: it ended\n\tat somewhere"
    assert why_no_workers(silent) == "PYTHONPATH was: | a.zip | SparkException: it ended"
    assert why_no_workers("SparkException: no cores\n\tat x") == "SparkException: no cores"


def test_executors_without_this_package_are_told_how_they_get_it() -> None:
    assert "`tidegate package` and spark.archives" in no_workers(SAID).message
    assert (
        no_workers("SparkException: no cores").message
        == "Spark's Python workers do not start: SparkException: no cores"
    )


def test_executors_find_what_was_packed_for_them_and_else_what_the_driver_has(tmp_path: Path) -> None:
    def path(**properties: str) -> str:
        settings = SessionSettings(
            tmp_path, "spark://a:7077", {key.replace("_", "."): text for key, text in properties.items()}
        )
        return session_properties(settings)["spark.executorEnv.PYTHONPATH"]

    assert path() == str(Path(tidegate.__file__).parent.parent)
    assert path(spark_archives="data.zip#data, s3a://b/deps.tar.gz#tidegate-packages") == "tidegate-packages"
    assert path(spark_archives="deps.tar.gz#other") == path()
    assert (
        path(spark_archives="deps.tar.gz#tidegate-packages", spark_executorEnv_PYTHONPATH="/opt")
        == "tidegate-packages:/opt"
    )


def test_a_task_manager_that_was_packed_itself_gives_executors_the_same(tmp_path: Path) -> None:
    """In a container of YARN, where Spark does not say which archives it ships."""
    packed = tmp_path / "container_2" / "tidegate-packages" / "tidegate" / "__init__.py"
    given = {"spark.executorEnv.PYTHONPATH": "{{PWD}}/pyspark.zip"}
    settings = SessionSettings(tmp_path, "yarn", given)
    assert _path_of_executors(settings, packed) == "tidegate-packages<CPS>{{PWD}}/pyspark.zip"
    installed = tmp_path / "site-packages"
    assert _path_of_executors(SessionSettings(tmp_path, "yarn"), installed / "tidegate" / "__init__.py") == str(
        installed
    )


def test_a_jvm_that_spark_started_keeps_what_it_was_given_unless_the_configuration_says_otherwise(
    tmp_path: Path,
) -> None:
    given = {"spark.master": "yarn", "spark.executor.cores": "8", "spark.executor.memory": "1g"}
    settings = SessionSettings(tmp_path, "yarn", {"spark.executor.memory": "2g"})
    merged = session_properties(in_given_jvm(settings, given))
    assert (merged["spark.executor.cores"], merged["spark.executor.memory"]) == ("8", "2g")
    with pytest.raises(
        ConfigurationError, match="spark.master is yarn, and Spark started this TaskManager for k8s://a"
    ):
        in_given_jvm(settings, {"spark.master": "k8s://a"})
