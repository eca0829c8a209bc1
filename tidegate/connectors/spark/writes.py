"""Writer functions for ``DataStream.to_spark`` that write each epoch exactly once, to systems that store the epoch with its rows.

Delta      the table's log: ``txnAppId``, ``txnVersion``; Delta itself leaves out what it has
Iceberg    the summary of the snapshot, which is looked for before the write
JDBC       a row in a table of markers, in the transaction that moves the rows from a staging table
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidegate.connectors.spark.sink import SparkEpoch
from tidegate.connectors.spark.stream_plan import JavaObject
from tidegate.model.errors import InvalidJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Write = Callable[["DataFrame", SparkEpoch], None]
MARKERS = "tidegate_epochs"
_APPLICATION = "tidegate.application-id"
_EPOCH = "tidegate.epoch"
_NAME = re.compile(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)*")


def delta_writer(path: str = "", *, table: str = "", options: Mapping[str, str] | None = None) -> Write:
    """Returns a writer that appends to a Delta table at a path or in a catalog. Spark needs the package of Delta. Raises ``InvalidJob``."""
    if bool(path) == bool(table):
        raise InvalidJob("delta_writer needs a path or a table, and not both")
    chosen = dict(options or {})

    def write(rows: DataFrame, epoch: SparkEpoch) -> None:
        writer = rows.write.format("delta").mode("append").options(**chosen)
        writer = writer.option("txnAppId", epoch.application_id).option("txnVersion", epoch.number)
        if table:
            writer.saveAsTable(table)
        else:
            writer.save(path)

    return write


def iceberg_writer(table: str, *, options: Mapping[str, str] | None = None) -> Write:
    """Returns a writer that appends to an Iceberg table in a catalog that Spark knows. Snapshots of the last epochs must not have expired."""
    chosen = dict(options or {})

    def write(rows: DataFrame, epoch: SparkEpoch) -> None:
        noted = f"summary['{_APPLICATION}'] = '{epoch.application_id}' AND summary['{_EPOCH}'] = '{epoch.number}'"
        if rows.sparkSession.table(f"{table}.snapshots").where(noted).isEmpty():
            writer = rows.writeTo(table).options(**chosen)
            writer = writer.option(f"snapshot-property.{_APPLICATION}", epoch.application_id)
            writer.option(f"snapshot-property.{_EPOCH}", str(epoch.number)).append()

    return write


def jdbc_writer(url: str, table: str, *, driver: str, properties: Mapping[str, str] | None = None) -> Write:
    """Returns a writer that appends to a table by JDBC. ``driver``: the driver's class, whose jar Spark needs. Rows are written to a staging table, and
    one transaction moves them and notes the epoch in ``tidegate_epochs``; both tables are created when missing. Raises ``InvalidJob`` for an invalid
    table name."""
    if not _NAME.fullmatch(table):
        raise InvalidJob(f"jdbc_writer needs the name of a table, not {table!r}")
    chosen = {**(properties or {}), "driver": driver}
    markers = ".".join([*table.split(".")[:-1], MARKERS])

    def write(rows: DataFrame, epoch: SparkEpoch) -> None:
        mark = hashlib.sha256(epoch.application_id.encode()).hexdigest()[:12]
        staging = ".".join([*table.split(".")[:-1], f"tidegate_staging_{mark}"])
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in rows.columns)
        connection = _connection(rows.sparkSession, url, driver, chosen)
        try:
            _make_markers(connection, markers)
            if not _is_noted(connection, markers, epoch):
                rows.write.jdbc(url, staging, mode="overwrite", properties=chosen)
                connection.setAutoCommit(False)
                _note(connection, markers, epoch)
                _run(connection, f"INSERT INTO {table} ({names}) SELECT {names} FROM {staging}")
                connection.commit()
                connection.setAutoCommit(True)
                _run(connection, f"DROP TABLE {staging}")
        finally:
            connection.close()

    return write


def _connection(spark: SparkSession, url: str, driver: str, properties: Mapping[str, str]) -> JavaObject:
    jvm: JavaObject = spark._jvm
    given = jvm.java.util.Properties()
    for key, value in properties.items():
        given.setProperty(key, value)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    made = jvm.java.lang.Class.forName(driver, True, loader).newInstance()
    return made.connect(url, given)


def _make_markers(connection: JavaObject, markers: str) -> None:
    """Creates the table of markers, which another writer may create at the same moment."""
    _run(
        connection,
        f"CREATE TABLE IF NOT EXISTS {markers} (application_id VARCHAR(200) NOT NULL, epoch BIGINT NOT NULL, "
        "PRIMARY KEY (application_id, epoch))",
    )


def _is_noted(connection: JavaObject, markers: str, epoch: SparkEpoch) -> bool:
    statement = connection.prepareStatement(f"SELECT 1 FROM {markers} WHERE application_id = ? AND epoch = ?")
    try:
        _bind(statement, epoch)
        return bool(statement.executeQuery().next())
    finally:
        statement.close()


def _note(connection: JavaObject, markers: str, epoch: SparkEpoch) -> None:
    """Notes the epoch; its key is unique, so that of two writers of an epoch one fails here with its transaction."""
    statement = connection.prepareStatement(f"INSERT INTO {markers} (application_id, epoch) VALUES (?, ?)")
    try:
        _bind(statement, epoch)
        statement.executeUpdate()
    finally:
        statement.close()


def _bind(statement: JavaObject, epoch: SparkEpoch) -> None:
    statement.setString(1, epoch.application_id)
    statement.setLong(2, epoch.number)


def _run(connection: JavaObject, text: str) -> None:
    statement = connection.createStatement()
    try:
        statement.execute(text)
    finally:
        statement.close()
