"""Connectors, formats and options that are not there are refused by name."""

from __future__ import annotations

import pytest

from tidegate.model.errors import InvalidJob
from tidegate.table._connectors.registry import check_table, is_bounded
from tidegate.table._connectors.shape import TableShape

FILES = {"connector": "filesystem", "path": "/x", "format": "csv"}


@pytest.mark.parametrize(
    ("options", "is_source", "said"),
    [
        ({}, True, "do not contain an option key 'connector' for discovering a connector: say WITH"),
        ({"connector": "datagne"}, True, "any connector 'datagne' for the table t; did you mean 'datagen'?"),
        ({"connector": "print"}, True, "'print' can only be used as a sink"),
        ({"connector": "datagen"}, False, "'datagen' can only be used as a source"),
        ({"connector": "filesystem", "path": "/x"}, True, "Missing required options are:\n\nformat"),
        ({**FILES, "format": "jsn"}, True, "any format 'jsn' for the connector 'filesystem'; did you mean 'json'?"),
        ({**FILES, "csv.field-delimiters": ";"}, True, "did you mean 'csv.field-delimiter'?"),
        ({"connector": "datagen", "rows-per-secnd": "1"}, True, "did you mean 'rows-per-second'?"),
        ({"connector": "datagen", "fields.a.knd": "random"}, True, "Unsupported options:\n\nfields.a.knd"),
    ],
)
def test_what_is_not_there_is_named(options: dict[str, str], is_source: bool, said: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        check_table(TableShape("t"), options, is_source=is_source)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("rows-per-second", "many", "a whole number from 1"),
        ("rows-per-second", "0", "a whole number from 1"),
        ("number-of-rows", "-1", "a whole number from 0"),
        ("fields.a.length", "1.5", "a whole number from 0"),
        ("fields.a.start", "x", "a whole number"),
        ("fields.a.min", "x", "a number"),
        ("fields.a.kind", "seq", "one of random and sequence"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_named(key: str, text: str, said: str) -> None:
    with pytest.raises(InvalidJob, match=f"Invalid value for option '{key}': '{text}' is not {said}"):
        check_table(TableShape("t"), {"connector": "datagen", key: text}, is_source=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"connector": "print", "standard-error": "perhaps"}, "'perhaps' is not true or false"),
        ({"connector": "print", "sink.parallelism": "x"}, "'x' is not a whole number from 1"),
        ({**FILES, "csv.field-delimiter": ";;"}, "';;' is not one character"),
        ({**FILES, "sink.rolling-policy.file-size": "lots"}, "'lots' is not a size, such as 128MB"),
        ({**FILES, "sink.rolling-policy.rollover-interval": "soon"}, "'soon' is not a duration, such as 30 min"),
        ({**FILES, "sink.rolling-policy.check-interval": "often"}, "'often' is not a duration, such as 30 min"),
    ],
)
def test_a_value_that_an_option_of_a_sink_does_not_take_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidJob, match=said):
        check_table(TableShape("t"), options, is_source=False)


def test_files_take_inserts_only_and_print_takes_everything() -> None:
    assert check_table(TableShape("t"), FILES, is_source=False) == "append"
    assert check_table(TableShape("t"), {"connector": "print"}, is_source=False) == "any"
    assert check_table(TableShape("t"), FILES, is_source=True) == "append"
    checked = {**FILES, "sink.rolling-policy.check-interval": "1min", "sink.rolling-policy.rollover-interval": "1min"}
    assert check_table(TableShape("t"), checked, is_source=False) == "append"


def test_generated_rows_end_where_a_count_or_a_sequence_says_so() -> None:
    assert not is_bounded({"connector": "datagen"})
    assert is_bounded({"connector": "datagen", "number-of-rows": "5"})
    assert is_bounded({"connector": "datagen", "fields.a.kind": "sequence", "fields.a.end": "5"})
    assert is_bounded(FILES)
