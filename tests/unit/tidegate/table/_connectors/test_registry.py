"""Connectors, formats and options that are not there are refused by name."""

from __future__ import annotations

import pytest

from tidegate.model.errors import InvalidJob
from tidegate.table._connectors.registry import check_table, is_bounded

FILES = {"connector": "filesystem", "path": "/x", "format": "csv"}


@pytest.mark.parametrize(
    ("options", "is_source", "said"),
    [
        ({}, True, "has no option 'connector'"),
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
        check_table("t", options, is_source=is_source)
    assert said in refused.value.message


def test_files_take_inserts_only_and_print_takes_everything() -> None:
    assert check_table("t", FILES, is_source=False) == "append"
    assert check_table("t", {"connector": "print"}, is_source=False) == "any"
    assert check_table("t", FILES, is_source=True) == "append"


def test_generated_rows_end_where_a_count_or_a_sequence_says_so() -> None:
    assert not is_bounded({"connector": "datagen"})
    assert is_bounded({"connector": "datagen", "number-of-rows": "5"})
    assert is_bounded({"connector": "datagen", "fields.a.kind": "sequence", "fields.a.end": "5"})
    assert is_bounded(FILES)
