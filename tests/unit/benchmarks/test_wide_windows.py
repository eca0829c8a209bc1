"""The contenders of the benchmark of many keys agree on small inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import wide_rows, wide_windows
from benchmarks.wide_rows import SHAPES, Mapped
from benchmarks.wide_windows import Runs


@pytest.mark.parametrize("shape", SHAPES)
def test_pyarrow_and_duckdb_agree(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    wide_rows.write(shape, 4_000, 100, path)
    length = wide_rows.window_ms(shape, 100)
    runs = Runs()
    by_pyarrow = wide_windows._pyarrow(runs, shape, path, 4_000, length, 1)
    by_duckdb = wide_windows._duckdb(runs, shape, path, 4_000, length, 1)
    assert by_pyarrow == by_duckdb
    assert by_pyarrow[1] == 4_000
    if shape == "one row a key":
        assert 2_000 < by_pyarrow[0] < 4_000, "about one"
    elif shape not in ("zipf", "hot key"):
        assert by_pyarrow[0] == 400


def test_a_slice_of_the_mapped_rows_may_cross_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_rows, "STEP_ROWS", 100)
    path = tmp_path / "rows.arrow"
    wide_rows.write("dense", 1_000, 100, path)
    generate = Mapped(str(path))
    assert generate(50, 270).column("ts").to_pylist() == [*range(50, 320)]
    assert generate(499, 2).column("ts").to_pylist() == [499, 0]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_times_begin_anew_with_each_source_alone(parallelism: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    wide_rows.write("dense", 1_000, 100, path, parallelism)
    times = wide_rows.mapped(path)["ts"].to_pylist()
    assert times == [*range(1_000 // parallelism)] * parallelism
