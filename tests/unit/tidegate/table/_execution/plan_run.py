"""A compiled plan run in the test's own thread: its operators by ``OperatorHarness``, its scans and constant rows as inputs of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

import pyarrow as pa

from tidegate.common.row import Row, RowKind
from tidegate.datastream import DataStream
from tidegate.functions.sql.changelog import has_kinds
from tidegate.functions.sql.scalar import EvaluationContext, arrow_schema
from tidegate.functions.sql.scalar.casts import caster
from tidegate.functions.sql.scalar.kernels import python_values
from tidegate.functions.sql.scalar.registry import ScalarCall
from tidegate.functions.sql.scalar.texts import formatter
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.exec_node_graph import ExecNodeGraph
from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.nodes import Node
from tidegate.plan.specs import ProjectPushDown
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.table._execution.lookups import Lookups
from tidegate.table._execution.python_nodes import Functions
from tidegate.table._execution.relational import table_schema
from tidegate.table._execution.translation import translate
from tidegate.testing import HarnessSnapshot, OperatorHarness

KINDS = ("+I", "-U", "+U", "-D")
_STRING = LogicalType(TypeRoot.VARCHAR, length=2147483647)
_SCANS = (plan_nodes.TableSourceScan2, plan_nodes.BatchTableSourceScan1)
_VALUES = (plan_nodes.Values1, plan_nodes.BatchValues1)
_COUNTED = pa.schema([("unused", pa.int8())])
"""The input of constant rows without columns, which a column counts."""
Texts = Sequence[str | None]


class PlanRun:
    """``has_updates``: the scans give rows with their kinds. Raises what ``translate`` raises."""

    def __init__(
        self,
        plan: ExecNodeGraph,
        *,
        has_updates: bool = False,
        restore: HarnessSnapshot | None = None,
        configuration: Mapping[str, str] | None = None,
        zone: str = "UTC",
        functions: Functions | None = None,
        options: Mapping[str, str] | None = None,
        lookups: Lookups | None = None,
    ) -> None:
        self._zone = zone
        self.scans: list[Node] = [node for node in plan.nodes if isinstance(node, _SCANS)]
        constants = [node for node in plan.nodes if isinstance(node, _VALUES)]
        self._constants: list[pa.Table] = []
        (sink,) = plan.sinks
        self.row_type = plan.inputs(sink.id)[0].output_type
        self.batches: list[pa.RecordBatch] = []
        schemas = [
            table_schema(scan.output_type, has_updates=has_updates or _gives_changes(scan)) for scan in self.scans
        ]
        schemas += [arrow_schema(node.output_type) or _COUNTED for node in constants]

        def piece(*streams: DataStream) -> DataStream:
            by_id = {scan.id: stream for scan, stream in zip(self.scans, streams, strict=False)}
            given = list(streams[len(self.scans) :])
            env = streams[0].get_execution_environment()
            ends: list[DataStream] = []

            def constant_rows(table: pa.Table) -> DataStream:
                self._constants.append(table)
                return given[len(self._constants) - 1].map_batches(_same, table.schema)

            env.from_collection = constant_rows  # type: ignore[method-assign, assignment]
            ended = lambda _, stream: ends.append(stream)  # noqa: E731
            translate(plan, env, lambda node: by_id[node.id], ended, zone, functions, options=options, lookups=lookups)
            del env.from_collection
            return ends[0].map_batches(self._keep, ends[0].get_type())

        types = [ArrowTypeInfo(schema) for schema in schemas]
        self.harness = OperatorHarness(piece, *types, restore=restore, configuration=configuration)

    def __enter__(self) -> PlanRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.harness.close()

    def _keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.batches.append(batch)
        return batch.slice(0, 0)  # its values need not be any that Python has

    def push_files(
        self,
        files: Mapping[str, Sequence[Sequence[str | None]]],
        kinds: Mapping[str, Sequence[str]] | None = None,
        *,
        one_by_one: bool = True,
    ) -> None:
        """Each scan reads its file, one after the other, and constant rows are given; then all input ends.

        ``kinds``: of the rows of files of changes. ``one_by_one``: each row is a batch.
        """
        for index, scan in enumerate(self.scans):
            rows = file_rows(scan, files)
            of_rows = [KINDS.index(kind) for kind in (kinds or {}).get(file_name(scan), ())] or None
            for part in [slice(at, at + 1) for at in range(len(rows))] if one_by_one else [slice(None)]:
                self.push(index, rows[part], of_rows and of_rows[part])
        for index, table in enumerate(self._constants, len(self.scans)):
            constants = [Row(*row.values()) for row in table.to_pylist()]
            for several in [[row] for row in constants] if one_by_one else [constants]:
                self.harness.push_all(several, input=index)
        self.finish()

    def finish(self) -> None:
        for index in range(len(self.scans) + len(self._constants)):
            self.harness.push_watermark(2**63 - 1, index)
        self.harness.finish()

    def push(self, index: int, rows: Sequence[Texts], kinds: Sequence[int] | None = None) -> None:
        """Rows as texts of an input, in one batch."""
        type = self.scans[index].output_type
        columns = [column(field.type, [row[i] for row in rows], self._zone) for i, field in enumerate(type.fields)]
        made = [Row(*row) for row in zip(*(array.to_pylist() for array in columns), strict=True)]
        for row, kind in zip(made, kinds or (), strict=kinds is not None):
            row.set_row_kind(RowKind(kind))
        self.harness.push_all(made, input=index)

    def wait_for_changes(self, count: int) -> None:
        """Waits until so many changes came out, for asynchronous calls."""
        while len(self.changes()) < count:
            self.harness._mails.get(timeout=60)()

    def changes(self) -> list[tuple[str, tuple[str | None, ...]]]:
        """What came out so far, as Flink's texts."""
        found: list[tuple[str, tuple[str | None, ...]]] = []
        for batch in self.batches:
            kinds = batch.columns[-1].to_pylist() if has_kinds(batch.schema) else [0] * batch.num_rows
            columns = [
                texts(field.type, array, self._zone)
                for field, array in zip(self.row_type.fields, batch.columns, strict=False)
            ]
            found += [(KINDS[kind], row) for kind, row in zip(kinds, zip(*columns, strict=True), strict=True)]
        return found


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def column(type: LogicalType, values: Sequence[str | None], zone: str) -> pa.Array:
    """Texts as the CSV format reads them."""
    context = EvaluationContext(zone)
    cast = caster(_STRING, type, context, ScalarCall("CSV", type, (), context))
    array = pa.array(values, pa.string())
    (kind,) = (field.type for field in arrow_schema(LogicalType(TypeRoot.ROW, fields=(Field("value", type),))))
    return array if cast is None else cast(array).cast(kind)


def texts(type: LogicalType, array: pa.Array, zone: str) -> list[str | None]:
    write = formatter(type, zone, prints=True)
    return [None if value is None else write(value) for value in python_values(array)]


def _gives_changes(scan: Node) -> bool:
    """Whether its format is one of changes."""
    assert isinstance(scan, _SCANS)
    table = scan.scan_table_source.table.resolved_table
    return table is not None and (table.options or {}).get("format") == "debezium-json"


def file_name(scan: Node) -> str:
    assert isinstance(scan, _SCANS)
    table = scan.scan_table_source.table.resolved_table
    assert table is not None
    assert table.options is not None
    return table.options["path"].rpartition("/")[2]


def file_rows(scan: Node, files: Mapping[str, Sequence[Sequence[str | None]]]) -> list[list[str | None]]:
    """The columns that a scan reads of its file."""
    assert isinstance(scan, _SCANS)
    table = scan.scan_table_source.table.resolved_table
    assert table is not None
    assert table.options is not None
    stored = [found for found in table.schema.columns if found.kind == "PHYSICAL"]
    null = table.options.get("csv.null-literal")
    chosen = list(range(len(stored)))
    for ability in scan.scan_table_source.abilities:
        if isinstance(ability, ProjectPushDown):
            chosen = [chosen[path[0]] for path in ability.projected_fields]
    rows = []
    for row in files[file_name(scan)]:
        made: list[str | None] = []
        for position in chosen:
            type = stored[position].data_type
            assert type is not None
            is_text = type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)
            value = row[position]
            made.append(None if value == null or (not value and not is_text) else value)
        rows.append(made)
    return rows


def folded(changes: Sequence[tuple[str, tuple[str | None, ...]]]) -> list[tuple[str | None, ...]]:
    """The rows that a changelog leaves, sorted. Raises ``ValueError`` where it takes back a row that is not there."""
    left: list[tuple[str | None, ...]] = []
    for kind, row in changes:
        if kind in ("+I", "+U"):
            left.append(row)
        else:
            left.remove(row)
    return sorted(left, key=repr)
