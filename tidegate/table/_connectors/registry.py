"""The connectors and formats that tables can name, with their options. Others are refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from tidegate.model.errors import InvalidJob, TidegateError
from tidegate.model.units import parse_duration_ms, parse_size_bytes
from tidegate.table._connectors import kafka, lookup_options
from tidegate.table._connectors.file_tables import METADATA, MONITOR_INTERVAL, PATH_PATTERN, check_pattern
from tidegate.table._connectors.format_options import format_of
from tidegate.table._connectors.kafka_records import WRITABLE
from tidegate.table._connectors.partition_commits import DELAY, TRIGGER, TRIGGERS, partition_commits
from tidegate.table._connectors.partition_commits import OPTIONS as PARTITION_COMMITS
from tidegate.table._connectors.shape import TableShape
from tidegate.table._formats.formats import AVRO, AVRO_FORMATS, CHANGELOG_FORMATS, DEBEZIUM_AVRO, REGISTRY_FORMATS
from tidegate.table._formats.formats import FORMATS as WRITTEN_FORMATS


@dataclass(frozen=True)
class Connector:
    """``patterns`` are regular expressions of option keys. ``key_formats``: those of keys. ``source_changes``, ``sink_changes``: append; all; upsert,
    with the keys of deletions alone; upsert-whole, with their rows; changes, which has no inserts; or ``any`` where the sink takes whatever the
    query makes. A format of changes makes it all. ``is_scanned``: a source has all rows, and not only those of keys, as ``is_looked_up`` says."""

    name: str
    is_source: bool
    is_sink: bool
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    key_formats: tuple[str, ...] = ()
    source_changes: str = "append"
    sink_changes: str = "append"
    shown: tuple[str, ...] = field(default=())
    is_scanned: bool = True
    is_looked_up: bool = False


FORMATS: Mapping[str, frozenset[str]] = {**WRITTEN_FORMATS, "parquet": frozenset()}
"""Options of each format, without the format's prefix. Options of Flink that are not listed are refused."""

MESSAGE_FORMATS = ("json", "csv", "raw", *AVRO_FORMATS, *CHANGELOG_FORMATS)
"""Formats of the keys and values of messages."""
FILE_FORMATS = ("json", "csv", "raw", AVRO, "parquet", *(one for one in CHANGELOG_FORMATS if one != DEBEZIUM_AVRO))
"""Formats of files."""
_OF_FILES = frozenset({f"{AVRO}.codec"})
"""Options that a format takes for files only."""
_DATAGEN_FIELD = r"fields\..+\.(kind|min|max|length|start|end|null-rate|var-len|max-past)"

COLLECT = "tidegate-collect"
"""The connector of the sink whose rows return to the program: of ``execute()`` and ``SELECT``."""
ROWS = "python-input-format"
"""The connector of tables made by ``from_elements`` and ``from_pandas``; the name that Flink's plans have for the former."""
STREAM = "datastream_source"
"""The connector of tables made by ``from_data_stream``; the name that Flink's messages have for it."""
STREAM_SINK = "datastream_sink"
"""The connector of the sink of ``to_data_stream`` and ``to_changelog_stream``; the name that Flink's messages have for it."""
ROWTIME = "rowtime"
"""The metadata key of the timestamp of stream records, TIMESTAMP_LTZ(3), as in Flink."""
CHANGES = "changes"
"""The option of stream tables and stream sinks for their changelog mode: ``append``, ``upsert`` or ``all``."""

CONNECTORS = {
    made.name: made
    for made in (
        Connector(
            "datagen", True, False,
            optional=frozenset({"rows-per-second", "number-of-rows"}), patterns=(_DATAGEN_FIELD,),
            shown=tuple(
                f"fields.#.{option}"
                for option in ("kind", "length", "max", "max-past", "min", "null-rate", "start", "end", "var-len")
            ),
        ),
        Connector(
            "print", False, True,
            optional=frozenset({"print-identifier", "standard-error", "sink.parallelism"}), sink_changes="any",
        ),
        Connector("blackhole", False, True, sink_changes="any"),
        Connector(
            "filesystem", True, True,
            required=frozenset({"path", "format"}),
            optional=frozenset(
                {
                    "partition.default-name",
                    "sink.parallelism",
                    "sink.rolling-policy.check-interval",
                    "sink.rolling-policy.file-size",
                    "sink.rolling-policy.rollover-interval",
                    MONITOR_INTERVAL,
                    PATH_PATTERN,
                    *PARTITION_COMMITS,
                    lookup_options.CACHE,
                    *lookup_options.FULL,
                }
            ),
            formats=FILE_FORMATS, is_looked_up=True,
        ),
        Connector(
            "jdbc", True, False,
            required=frozenset({"url", "table-name"}),
            optional=frozenset({"username", "password", "driver", *lookup_options.OPTIONS}),
            is_scanned=False, is_looked_up=True,
        ),
        Connector(
            "kafka", True, True,
            required=frozenset({kafka.SERVERS}), optional=kafka.OPTIONS, patterns=(r"properties\..+",),
            formats=MESSAGE_FORMATS, key_formats=MESSAGE_FORMATS, shown=("properties.*",),
        ),
        Connector(
            "upsert-kafka", True, True,
            required=frozenset({kafka.SERVERS, "key.format", "value.format"}), optional=kafka.UPSERT_OPTIONS,
            patterns=(r"properties\..+",), formats=MESSAGE_FORMATS, key_formats=MESSAGE_FORMATS, shown=("properties.*",),
            source_changes="changes", sink_changes="upsert-whole",
        ),
        Connector(
            lookup_options.PYTHON, True, False,
            required=frozenset({"class"}), optional=lookup_options.PARTIAL, patterns=(r"arguments\..+",),
            shown=("arguments.*",), is_scanned=False, is_looked_up=True,
        ),
        Connector(COLLECT, False, True, optional=frozenset({"number"}), sink_changes="any"),
        Connector(ROWS, True, False, required=frozenset({"number"})),
        Connector(STREAM, True, False, required=frozenset({"number", CHANGES})),
        Connector(STREAM_SINK, False, True, required=frozenset({CHANGES})),
    )
}  # fmt: skip
_OURS = (COLLECT, ROWS, STREAM, STREAM_SINK)


def nearest(name: str, names: Iterable[str]) -> str:
    """Returns ``; did you mean 'x'?`` if a name is close to one of ``names``, else an empty text."""
    found = get_close_matches(name, list(names), 1)
    return f"; did you mean '{found[0]}'?" if found else ""


def _whole(least: int | None = None) -> Callable[[str], None]:
    def check(text: str) -> None:
        if int(text) < (int(text) if least is None else least):
            raise ValueError(text)

    return check


def _one_of(*words: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text.lower() not in words:
            raise ValueError(text)

    return check


def _interval(text: str) -> None:
    if parse_duration_ms(text) < 1:
        raise ValueError(text)


def _sign(text: str) -> None:
    if len(text) != 1 and not (len(text) == 2 and text.startswith("\\")):  # as in \t
        raise ValueError(text)


_VALUES: dict[str, tuple[Callable[[str], object], str]] = {
    "rows-per-second|(sink|scan)\\.parallelism": (_whole(1), "a whole number from 1"),
    "number-of-rows|fields\\..+\\.length": (_whole(0), "a whole number from 0"),
    "fields\\..+\\.(start|end)": (_whole(), "a whole number"),
    "fields\\..+\\.(min|max|null-rate)": (float, "a number"),
    "fields\\..+\\.max-past": (parse_duration_ms, "a duration, such as 30 min"),
    "fields\\..+\\.kind": (_one_of("random", "sequence"), "one of random and sequence"),
    "standard-error|fields\\..+\\.var-len": (_one_of("true", "false"), "true or false"),
    "(value\\.)?csv\\.field-delimiter": (_sign, "one character"),
    "sink\\.rolling-policy\\.file-size": (parse_size_bytes, "a size, such as 128MB"),
    "sink\\.rolling-policy\\.(check|rollover)-interval": (parse_duration_ms, "a duration, such as 30 min"),
    re.escape(DELAY): (parse_duration_ms, "a duration, such as 1 h"),
    re.escape(TRIGGER): (_one_of(*TRIGGERS), f"one of {' and '.join(TRIGGERS)}"),
    re.escape(MONITOR_INTERVAL): (_interval, "a duration from 1 ms"),
    re.escape(PATH_PATTERN): (check_pattern, "a regular expression"),
}
"""Checks of option values by a regular expression of the option's key, each with what the message calls a right value."""


def check_table(shape: TableShape, options: Mapping[str, str], *, is_source: bool) -> str:
    """Checks connector, format and options of a table that is read or written; returns its changelog mode, as ``Connector`` has it.

    Raises ``InvalidJob``, which names the option, for a connector, a format or an option that is unknown, for one that is missing, and for an invalid
    value.
    """
    table = shape.name
    connector = connector_of(table, options)
    if is_source and not connector.is_source:
        raise InvalidJob(f"Connector '{connector.name}' can only be used as a sink. It cannot be used as a source.")
    if not is_source and not connector.is_sink:
        raise InvalidJob(f"Connector '{connector.name}' can only be used as a source. It cannot be used as a sink.")
    missing = sorted(connector.required - options.keys())
    if missing:
        raise InvalidJob(
            f"One or more required options are missing.\n\nMissing required options are:\n\n{chr(10).join(missing)}"
        )
    known = {"connector", *connector.required, *connector.optional}
    patterns = (*connector.patterns, rf"(key\.|value\.)?({'|'.join(REGISTRY_FORMATS)})\.properties\..+")
    changes = connector.source_changes if is_source else connector.sink_changes
    if connector.formats:
        chosen, prefix = format_of(table, options)
        known |= {f"{prefix}format"} | _known_options(connector.name, chosen, prefix, connector.formats)
        if chosen in CHANGELOG_FORMATS:
            changes = "all"
    if connector.key_formats and "key.format" in options:
        known |= _known_options(connector.name, options["key.format"], "key.", connector.key_formats)
    unknown = sorted(
        key for key in options if key not in known and not any(re.fullmatch(pattern, key) for pattern in patterns)
    )
    if unknown:
        hint = nearest(unknown[0], {*known, *connector.shown})
        raise InvalidJob(
            f"Unsupported options found for '{connector.name}'{hint}\n\nUnsupported options:\n\n{chr(10).join(unknown)}\n\n"
            f"Supported options:\n\n{chr(10).join(sorted({*known, *connector.shown}))}"
        )
    for key, text in options.items():
        for pattern, (parse, what) in _VALUES.items():
            if re.fullmatch(pattern, key):
                try:
                    parse(text)
                except (ValueError, TidegateError):
                    raise InvalidJob(f"Invalid value for option '{key}': '{text}' is not {what}") from None
    if CHANGES in connector.required:
        return options[CHANGES]
    if connector.name in (kafka.KAFKA, kafka.UPSERT_KAFKA):
        kafka.check_kafka(options, shape, is_source=is_source)
    if connector.name == "filesystem" and not is_source:
        partition_commits(shape, options)
    if connector.is_looked_up and is_source:
        lookup_options.check_lookups(connector.name, options)
    return changes


def _known_options(connector: str, chosen: str, prefix: str, formats: tuple[str, ...]) -> set[str]:
    if chosen not in formats:
        raise InvalidJob(
            f"Could not find any format '{chosen}' for the connector '{connector}'{nearest(chosen, formats)}\n\n"
            f"Available formats are:\n\n{chr(10).join(sorted(formats))}"
        )
    options = {f"{chosen}.{option}" for option in FORMATS[chosen]}
    if formats is not FILE_FORMATS:
        options -= _OF_FILES
    return {f"{prefix}{option}" for option in options}


def readable_metadata(options: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the metadata columns that a table can read: keys with SQL types."""
    match options["connector"]:
        case kafka.KAFKA | kafka.UPSERT_KAFKA:
            return kafka.readable_metadata(options)
        case "filesystem":
            return METADATA
        case _:
            return {}


def writable_metadata(options: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the metadata columns that a table can write: keys with SQL types."""
    match options["connector"]:
        case kafka.KAFKA | kafka.UPSERT_KAFKA:
            return WRITABLE
        case connector if connector == STREAM_SINK:
            return {ROWTIME: "TIMESTAMP_LTZ(3)"}
        case _:
            return {}


def is_bounded(options: Mapping[str, str]) -> bool:
    """Returns whether a table is bounded."""
    if options["connector"] in (kafka.KAFKA, kafka.UPSERT_KAFKA):
        return kafka.is_bounded(options)
    if options["connector"] != "datagen":
        return MONITOR_INTERVAL not in options
    return "number-of-rows" in options or any(key.endswith(".end") for key in options)


def connector_of(table: str, options: Mapping[str, str]) -> Connector:
    """Returns the connector of a table. Raises ``InvalidJob`` if the options name none, or an unknown one."""
    name = options.get("connector")
    if name is None:
        raise InvalidJob(
            f"Table options do not contain an option key 'connector' for discovering a connector: say WITH ('connector' = '...') of the table {table}"
        )
    if name not in CONNECTORS:
        offered = sorted(CONNECTORS.keys() - set(_OURS))
        raise InvalidJob(
            f"Could not find any connector '{name}' for the table {table}{nearest(name, offered)}\n\n"
            f"Available connectors are:\n\n{chr(10).join(offered)}"
        )
    return CONNECTORS[name]
