"""Names of directories are columns of the files below, of every format with columns."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.tidegate.connectors.test_file_source import drain, states
from tidegate.common.typeinfo import RowTypeInfo, Types
from tidegate.connectors.base import SplitState
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.files import hive
from tidegate.connectors.files.columns import RowParquetFormat
from tidegate.connectors.files.file_range import FileRange
from tidegate.model.errors import SchemaMismatch

Write = Callable[[Path, list[int]], None]
Make = Callable[..., FileSource]


def csv(path: Path, values: list[int]) -> None:
    path.with_suffix(".csv").write_text("v\n" + "".join(f"{v}\n" for v in values))


def json(path: Path, values: list[int]) -> None:
    path.with_suffix(".jsonl").write_text("".join(f'{{"v":{v}}}\n' for v in values))


def parquet(path: Path, values: list[int]) -> None:
    pq.write_table(pa.table({"v": values}), path.with_suffix(".parquet"))


FORMATS = [(csv, FileSource.for_csv), (json, FileSource.for_json_lines), (parquet, FileSource.for_parquet)]
DAYS = {"dt=2024-01-01/n=1": [1, 2], "dt=2024-01-02/n=2": [3]}


def tree(root: Path, write: Write, files: dict[str, list[int]]) -> str:
    for directory, values in files.items():
        (root / directory).mkdir(parents=True)
        write(root / directory / "part", values)
    return str(root)


def rows(source: FileSource) -> list[Any]:
    return drain(source, states(source))[0]


@pytest.mark.parametrize(("write", "make"), FORMATS)
def test_directories_are_columns(tmp_path: Path, write: Write, make: Make) -> None:
    source = make(tree(tmp_path, write, DAYS))
    assert source.schema == pa.schema([("v", pa.int64()), ("dt", pa.string()), ("n", pa.int32())])
    assert [tuple(row.values()) for row in rows(source)] == [
        (1, "2024-01-01", 1),
        (2, "2024-01-01", 1),
        (3, "2024-01-02", 2),
    ]
    head, middle = drain(source, states(source), stop_after=1)
    assert head + drain(source, middle)[0] == rows(source)
    first = [hive.first_record(source._format, *_part(state)) for state in states(source)]
    assert [data.to_pylist()[0]["dt"] for data in first if data is not None] == ["2024-01-01", "2024-01-02"]


def _part(state: SplitState) -> tuple[FileRange, hive.Values, None, int]:
    path, start, end, size, values = state.split.payload
    return FileRange(path, start, end, size), values, None, 0


@pytest.mark.parametrize(("write", "make"), FORMATS)
def test_a_given_schema_says_which_and_of_what_type(tmp_path: Path, write: Write, make: Make) -> None:
    root = tree(tmp_path, write, DAYS)
    dates = pa.schema([("dt", pa.date32()), ("v", pa.int64())])
    assert rows(make(root, schema=dates))[-1] == {"dt": datetime.date(2024, 1, 2), "v": 3}
    assert rows(make(root, schema=pa.schema([("v", pa.int64())]))) == [{"v": 1}, {"v": 2}, {"v": 3}]
    assert rows(make(root, schema=pa.schema([("n", pa.int64())]))) == [{"n": 1}, {"n": 1}, {"n": 2}]
    with pytest.raises(SchemaMismatch, match="column 'dt' is int64, its directory says '2024-01-01'"):
        make(root, schema=pa.schema([("dt", pa.int64())])).list_splits(1)


def test_a_parquet_file_as_rows_of_a_type_has_its_directories_columns(tmp_path: Path) -> None:
    row_type = RowTypeInfo([Types.STRING(), Types.LONG(), Types.LONG()], ["dt", "v", "other"])
    source = FileSource([tree(tmp_path, parquet, DAYS)], RowParquetFormat(row_type))
    assert rows(source)[-1] == {"dt": "2024-01-02", "v": 3, "other": None}


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    root = tree(tmp_path, parquet, DAYS)
    assert rows(FileSource.for_parquet(root, columns=["n"])) == [{"n": 1}, {"n": 1}, {"n": 2}]


@pytest.mark.parametrize(("write", "make"), FORMATS[::2])
def test_a_file_in_no_such_directory_is_named(tmp_path: Path, write: Write, make: Make) -> None:
    write(tmp_path / "alone", [4])
    source = make(tree(tmp_path, write, DAYS), schema=pa.schema([("v", pa.int64()), ("dt", pa.string())]))
    with pytest.raises(SchemaMismatch, match=r"alone\.\w+ has no column 'dt'"):
        source.list_splits(1)


def test_directories_above_the_path_do_not_count_and_the_directory_counts_before_the_file(tmp_path: Path) -> None:
    inner = tmp_path / "v=9"
    root = tree(inner, csv, {"a": [1]})
    assert rows(FileSource.for_csv(root)) == [{"v": 1}]
    assert rows(FileSource.for_csv(f"{root}/a/part.csv")) == [{"v": 1}]
    assert rows(FileSource.for_csv(str(tmp_path))) == [{"v": 9}]


def test_files_that_come_later_have_them(tmp_path: Path) -> None:
    root = tree(tmp_path, csv, DAYS)
    source = FileSource.for_csv(root).monitor_continuously(1000)
    assert [split.payload[4]["dt"] for split in source.list_splits(1)] == ["2024-01-01", "2024-01-02"]


TEXT = st.text(st.sampled_from("0129-+ax é%=."), max_size=4) | st.just("__HIVE_DEFAULT_PARTITION__")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXT.filter(lambda text: text not in (".", "..")), min_size=1, max_size=4, unique=True))
def test_names_and_types_are_those_that_pyarrow_infers(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    if texts == ["__HIVE_DEFAULT_PARTITION__"]:
        return  # no type for pyarrow
    root = tmp_path_factory.mktemp("tree")
    for place, text in enumerate(texts):
        (root / f"p={text}").mkdir()
        pq.write_table(pa.table({"v": [place]}), root / f"p={text}" / "part.parquet")
    if any("\ufffd" in unquote(text) for text in texts):
        with pytest.raises(SchemaMismatch, match="is not UTF-8"):
            FileSource.for_parquet(str(root))
        return
    expected = ds.dataset(str(root), partitioning="hive").to_table().sort_by("v")
    source = FileSource.for_parquet(str(root))
    assert source.schema == expected.schema
    assert sorted(rows(source), key=lambda row: row["v"]) == expected.to_pylist()
