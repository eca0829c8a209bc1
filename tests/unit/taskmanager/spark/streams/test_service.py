"""What of an error of Spark's is shown."""

from __future__ import annotations

from tidegate.taskmanager.spark.streams.service import first_words


def test_the_cause_of_an_error_in_the_jvm_is_what_is_said() -> None:
    text = (
        "An error occurred while calling o86.count.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b.C(C.scala:1)\n"
        "Caused by: java.io.FileNotFoundException: File a.parquet does not exist\n\tat d.E(E.java:2)\n"
    )
    assert first_words(RuntimeError(text)) == "java.io.FileNotFoundException: File a.parquet does not exist"


def test_an_error_of_python_says_its_own_words() -> None:
    assert first_words(ValueError("no such day")) == "ValueError: no such day"
    assert first_words(ValueError()) == "ValueError"
