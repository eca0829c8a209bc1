"""The catalogue entry of a PostgreSQL table: its columns, and which keys identify a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.model.errors import InvalidJob

_PART = re.compile(r'"(?:[^"]|"")*"|[^."][^.]*')

_COLUMNS = """
WITH RECURSIVE base (attnum, typid, typmod) AS (
    SELECT attnum, atttypid, atttypmod FROM pg_attribute WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT b.attnum, t.typbasetype, t.typtypmod FROM base b JOIN pg_type t ON t.oid = b.typid WHERE t.typtype = 'd'
)
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typname, t.typtype, t.typnamespace = 'pg_catalog'::regnamespace, b.typmod,
    a.attnotnull, a.atthasdef, a.attgenerated, a.attidentity, coalesce(c.collisdeterministic, true),
    CASE WHEN a.attcollation <> w.typcollation THEN quote_ident(n.nspname) || '.' || quote_ident(c.collname) END
FROM base b
JOIN pg_type t ON t.oid = b.typid AND t.typtype <> 'd'
JOIN pg_attribute a ON a.attrelid = %(table)s AND a.attnum = b.attnum
JOIN pg_type w ON w.oid = a.atttypid
LEFT JOIN pg_collation c ON c.oid = a.attcollation
LEFT JOIN pg_namespace n ON n.oid = c.collnamespace
ORDER BY a.attnum
"""
_CHECKS = """
SELECT 'CONSTRAINT ' || quote_ident(c.conname) || ' ' || pg_get_constraintdef(c.oid),
    array(SELECT a.attname::text FROM unnest(c.conkey) k LEFT JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k)
FROM pg_constraint c WHERE c.conrelid = %(table)s AND c.contype = 'c' ORDER BY c.conname
"""
_UNIQUE = """
SELECT array(SELECT a.attname::text FROM unnest(i.indkey[0:i.indnkeyatts - 1]) k
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k),
    coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
FROM pg_index i
WHERE i.indrelid = %(table)s AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
"""


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column of a table. ``type_name``: of the base type below all domains, built in if ``is_builtin``; ``modifier``: its typmod, -1 for none.
    ``shown``: the type in SQL. ``collation``: where it is not the type's default."""

    name: str
    shown: str
    type_name: str
    kind: str
    is_builtin: bool
    modifier: int
    is_not_null: bool
    has_default: bool
    generated: str
    identity: str
    is_deterministic: bool
    collation: str | None = None

    @property
    def definition(self) -> str:
        """Returns the column's definition for ``CREATE TABLE``, without a default."""
        collate = f" COLLATE {self.collation}" if self.collation else ""
        return f"{quoted(self.name)} {self.shown}{collate}{' NOT NULL' if self.is_not_null else ''}"


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A PostgreSQL table. ``checks``: definitions of the check constraints, each with its columns. ``unique``: columns of the unique indexes that an
    upsert can use, each with whether two nulls are equal."""

    name: str
    kind: str
    columns: tuple[PostgresColumn, ...]
    checks: tuple[tuple[str, tuple[str | None, ...]], ...]
    unique: tuple[tuple[frozenset[str], bool], ...]

    @staticmethod
    def read(connection: Any, name: str) -> PostgresTable:
        """Reads a table's catalogue entry. ``name``: see ``quoted_table``. Raises ``InvalidJob`` when it does not exist."""
        found = connection.execute(
            "SELECT c.oid, c.relkind FROM pg_class c WHERE c.oid = to_regclass(%s)", [quoted_table(name)]
        ).fetchone()
        if found is None:
            raise InvalidJob(f"there is no table {name!r} in PostgreSQL: create it")
        oid, kind = found
        columns, checks, unique = (
            connection.execute(query, {"table": oid}).fetchall() for query in (_COLUMNS, _CHECKS, _UNIQUE)
        )
        return PostgresTable(
            name,
            _text(kind),
            tuple(PostgresColumn(*(_text(value) for value in row)) for row in columns),
            tuple((check, tuple(names)) for check, names in checks),
            tuple((frozenset(names), same) for names, same in unique),
        )

    def written(self, names: Sequence[str], keys: Sequence[str] = ()) -> list[PostgresColumn]:
        """Returns the table's columns that a stream with the column names ``names`` writes, in this order. Raises ``InvalidJob`` for names, and key columns
        ``keys``, that the table does not accept.
        """
        if self.kind not in ("r", "p", "v"):  # a view may have triggers that insert
            raise InvalidJob(f"{self.name!r} of PostgreSQL is not a table: a sink can only write to tables")
        by_name = {column.name: column for column in self.columns}
        if len(set(names)) < len(names):
            raise InvalidJob(f"the columns {list(names)} contain a name twice")
        if missing := [name for name in names if name not in by_name]:
            raise InvalidJob(
                f"table {self.name!r} has no column {missing[0]!r}: its columns are {', '.join(map(repr, by_name))}"
            )
        for column in self.columns:
            self._check(column, is_written=column.name in names)
        if keys:
            self._check_keys([by_name[key] for key in keys])
        return [by_name[name] for name in names]

    def takes_null_keys(self, keys: Sequence[str]) -> bool:
        """Returns whether an upsert finds rows whose key is null."""
        return any(same for names, same in self.unique if names == frozenset(keys))

    def _check(self, column: PostgresColumn, *, is_written: bool) -> None:
        place = f"column {column.name!r} of table {self.name!r}"
        if is_written and column.generated:
            raise InvalidJob(f"{place} is generated by the table: leave it out of the stream")
        if is_written and column.identity == "a":
            raise InvalidJob(
                f"{place} is GENERATED ALWAYS AS IDENTITY: leave it out of the stream, or make it GENERATED BY DEFAULT"
            )
        is_given = is_written or column.has_default or column.identity or column.generated
        if not is_given and column.is_not_null:
            raise InvalidJob(f"{place} is NOT NULL without a default, and the stream has no such column")

    def _check_keys(self, keys: Sequence[PostgresColumn]) -> None:
        names = [column.name for column in keys]
        for column in keys:
            if column.type_name == "citext" or not column.is_deterministic:
                raise InvalidJob(
                    f"the upsert key {column.name!r} of table {self.name!r} is {column.shown}, to which texts are equal that are different keys "
                    "in a stream: the order of their rows would be lost. Make the keys equal in the stream (lower case, say) and the column text"
                )
        if not any(found == frozenset(names) for found, _ in self.unique):
            raise InvalidJob(
                f"table {self.name!r} has no unique index on exactly the upsert keys {names} (one that is neither partial, deferrable, nor on "
                f"expressions): CREATE UNIQUE INDEX ON {quoted_table(self.name)} ({', '.join(map(quoted, names))})"
            )


def quoted(name: str) -> str:
    """Quotes a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quoted_table(name: str) -> str:
    """Quotes the name of a table as an SQL identifier. A dot separates schema and table; a part in double quotes may contain one, ``'public."a.b"'``.
    Capitals are kept, as in columns."""
    parts = _PART.findall(name)
    if ".".join(parts) != name or not parts:
        raise InvalidJob(f"{name!r} is not the name of a table: write table, schema.table, or parts in double quotes")
    return ".".join(part if part.startswith('"') else quoted(part) for part in parts)


def _text(value: Any) -> Any:
    """Decodes the catalogue's type ``"char"``, which some versions of the driver return as bytes."""
    return value.decode() if isinstance(value, bytes) else value
