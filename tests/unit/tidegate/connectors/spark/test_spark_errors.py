"""What of an error of Spark's is shown."""

from __future__ import annotations

from tidegate.connectors.spark.spark_errors import explained, first_words


def test_the_cause_of_an_error_in_the_jvm_is_what_is_said() -> None:
    text = (
        "An error occurred while calling o86.count.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b.C(C.scala:1)\n"
        "Caused by: java.io.FileNotFoundException: File a.parquet does not exist\n\tat d.E(E.java:2)\n"
    )
    assert first_words(RuntimeError(text)) == "java.io.FileNotFoundException: File a.parquet does not exist"


def test_sparks_own_sentence_is_said_since_it_names_the_file() -> None:
    text = (
        "An error occurred while calling o86.count.\n: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed: "
        "org.apache.spark.SparkException: [FAILED_READ_FILE.PARQUET_COLUMN] Error while reading file a.parquet. SQLSTATE: KD001\n\tat a.b.C(C.scala:1)\n"
        "Caused by: org.apache.spark.SchemaColumnConvertNotSupportedException: column: [id]\n\tat d.E(E.java:2)\n"
    )
    expected = "[FAILED_READ_FILE.PARQUET_COLUMN] Error while reading file a.parquet. SQLSTATE: KD001"
    assert first_words(RuntimeError(text)) == expected


def test_what_a_function_raised_in_a_worker_of_spark_is_said() -> None:
    text = (
        "An error occurred while calling o86.count.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b.C(C.scala:1)\n"
        "Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "job.py", line 3, in f\n    return 1 / n\nZeroDivisionError: division by zero\n\n\tat d.E(E.java:2)\n'
    )
    assert first_words(RuntimeError(text)) == "ZeroDivisionError: division by zero"


def test_an_error_of_python_says_its_own_words() -> None:
    assert first_words(ValueError("no such day")) == "ValueError: no such day"
    assert first_words(ValueError()) == "ValueError"


def test_a_package_that_is_not_there_is_named_by_its_option() -> None:
    missing = RuntimeError(
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: pulsar. Make sure the provider name is correct"
    )
    assert explained(missing).startswith("RuntimeError: [DATA_SOURCE_NOT_FOUND]")
    assert "-D spark.jars.packages=group:artifact:version" in explained(missing)
    assert explained(ValueError("no such day")) == "ValueError: no such day"
