"""Savepoints that were read, changed and written by tables are what jobs go on from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.jobs import counts as counts_job
from tests.e2e.jobs import queried
from tests.e2e.test_queryable_state import KEYS, SERVED, counts
from tests.e2e.watching import JobWatch
from tidegate.common.typeinfo import Types
from tidegate.functions.state import ValueStateDescriptor
from tidegate.model.errors import Misuse
from tidegate.queryablestate import QueryableStateClient
from tidegate.state_processor import OperatorIdentifier, OperatorTransformation, SavepointReader, SavepointWriter

MANY = 1_000_000_000
"""More than the job counts."""
_JOB_LIMIT_S = 240


@pytest.mark.parametrize("style", ["records", "columns"])
def test_a_job_goes_on_exactly_from_a_savepoint_all_of_which_went_through_tables(style: str, tmp_path: Path) -> None:
    """Windows, timers, positions of sources, what sinks have to commit: everything is read, and written anew."""
    run = CountsRun(
        tmp_path / "run", held=True, seconds=4, rows=16_000, splits=4, style=style, disorder=counts_job.SPAN_MS
    )
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.add_taskmanager(4)
        cluster.wait_slots(4)
        watch = run.submit(cluster, parallelism=2)
        watch.wait_running()
        watch.wait_checkpoints(1)
        savepoint = stopped_with(cluster, watch, tmp_path / "savepoints")
        reader, writer = SavepointReader.read(savepoint), SavepointWriter.from_existing_savepoint(savepoint)
        rewritten = 0
        for identifier in reader.get_operators():
            for name in reader.get_state_names(identifier):
                state = reader.state(identifier, name)
                tables = reader.checkpoint.tables_of(state, type_names=False)
                writer.with_state(
                    identifier, OperatorTransformation.bootstrap_with(tables).like(reader, identifier, name)
                )
                rewritten += state.is_keyed
        assert rewritten, "the job has keyed state"
        check_windows(reader, are_there=style == "columns")
        writer.write(str(tmp_path / "rewritten"))
        run.release()
        watch = run.submit(cluster, parallelism=2, restore=str(tmp_path / "rewritten"))
        watch.wait_finished(_JOB_LIMIT_S)
        run.assert_exact()


def check_windows(reader: SavepointReader, are_there: bool) -> None:
    """The savepoint's open windows are those of the job's assigner, with some rows each."""
    counting = OperatorIdentifier.for_uid("count")
    if not are_there:
        with pytest.raises(Misuse, match="has no state of windows in this savepoint"):
            reader.read_window_state(counting)
        return
    windows = pa.concat_tables(reader.read_window_state(counting)).to_pylist()
    assert windows
    for row in windows:
        assert row["window_start"] % counts_job.WINDOW_MS == 0
        assert row["window_end"] == row["window_start"] + counts_job.WINDOW_MS
        assert 0 < row["value.rows"] <= 16_000


def test_values_uids_and_new_operators(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", SERVED) as cluster:
        cluster.add_taskmanager(4)
        cluster.wait_slots(4)
        settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
        watch = cluster.submit(JOBS / "queried.py", parallelism=2, settings=settings)
        watch.wait_running()
        with QueryableStateClient("127.0.0.1", cluster.port) as client:
            counts(client, watch)
            savepoint = stopped_with(cluster, watch, tmp_path / "savepoints")
            before, after = OperatorIdentifier.for_uid("counted"), OperatorIdentifier.for_uid("renamed")
            reader = SavepointReader.read(savepoint)

            def added() -> Iterator[pa.Table]:
                for table in reader.read_keyed_state(before, "count"):
                    place = table.schema.get_field_index("value")
                    yield table.set_column(place, table.schema.field("value"), pc.add(table["value"], MANY))

            writer = SavepointWriter.from_existing_savepoint(savepoint)
            writer.with_state(before, OperatorTransformation.bootstrap_with(added()).like(reader, before, "count"))
            writer.change_operator_identifier(before, after).remove_operator(OperatorIdentifier.for_uid("added"))
            writer.write(str(tmp_path / "changed"))
            arguments = ("--uid", "renamed")
            changed = str(tmp_path / "changed")
            watch = cluster.submit(JOBS / "queried.py", *arguments, parallelism=1, restore=changed, settings=settings)
            watch.wait_running()
            assert all(count >= MANY for count in counts(client, watch))
            cluster.cancel(watch)

            table = pa.table({"key": KEYS, "value": [2 * MANY] * len(KEYS)})
            bootstrap = OperatorTransformation.bootstrap_with(table).key_by("key", Types.LONG())
            state = bootstrap.transform(ValueStateDescriptor("count", Types.LONG()))
            SavepointWriter.new_savepoint().with_operator(before, state).write(str(tmp_path / "new"))
            watch = cluster.submit(JOBS / "queried.py", parallelism=2, restore=str(tmp_path / "new"), settings=settings)
            watch.wait_running()
            found = counts(client, watch)
            assert all(count >= 2 * MANY for count in found)
            assert len(found) == queried.KEYS
            cluster.cancel(watch)


def stopped_with(cluster: Cluster, watch: JobWatch, directory: Path) -> str:
    """The job is FINISHED; its savepoint."""
    done = cluster.cli("stop", watch.job_id, "--savepoint-path", str(directory), "-m", cluster.address)
    assert done.returncode == 0, done.stderr
    (savepoint,) = directory.iterdir()
    return str(savepoint)
