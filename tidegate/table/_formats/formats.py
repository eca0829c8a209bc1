"""The formats of messages and files by name, with Flink's options."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from tidegate.connectors.formats.avro_messages import SchemaRegistry
from tidegate.connectors.formats.avro_type import library, parse
from tidegate.model.errors import InvalidJob
from tidegate.plan.logical_types import LogicalType
from tidegate.table._formats.avro import AvroReading, AvroWriting
from tidegate.table._formats.avro_schema import schema_text, table_type
from tidegate.table._formats.changelog_avro import ChangelogAvroReading, ChangelogAvroWriting, envelope_of
from tidegate.table._formats.changelog_json import DIALECTS, ChangelogReading, ChangelogWriting
from tidegate.table._formats.csv_reading import CsvReading
from tidegate.table._formats.csv_writing import CsvWriting
from tidegate.table._formats.json_reading import JsonReading
from tidegate.table._formats.json_writing import JsonWriting
from tidegate.table._formats.raw import RawReading, RawWriting, check_raw
from tidegate.table._formats.times import TimestampStandard

Reading: TypeAlias = JsonReading | CsvReading | RawReading | AvroReading | ChangelogReading | ChangelogAvroReading
Writing: TypeAlias = JsonWriting | CsvWriting | RawWriting | AvroWriting | ChangelogWriting | ChangelogAvroWriting

_CHANGES_IN_JSON = frozenset(
    {
        "ignore-parse-errors",
        "timestamp-format.standard",
        "map-null-key.mode",
        "map-null-key.literal",
        "encode.decimal-as-plain-number",
        "encode.ignore-null-fields",
    }
)

AVRO: Final = "avro"
REGISTRY_AVRO: Final = "avro-confluent"
"""The name of Avro with a schema registry."""
DEBEZIUM_AVRO: Final = "debezium-avro-confluent"
"""The name of Debezium's changes in Avro with a schema registry."""
AVRO_FORMATS: Final = (AVRO, REGISTRY_AVRO)
REGISTRY_FORMATS: Final = (REGISTRY_AVRO, DEBEZIUM_AVRO)
"""Formats whose schemas are in a schema registry."""
_LEGACY: Final = "timestamp_mapping.legacy"
AVRO_CODECS: Final = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")
_REGISTRY_PROPERTIES: Final = {
    "basic-auth.credentials-source": "basic.auth.credentials.source",
    "basic-auth.user-info": "basic.auth.user.info",
    "bearer-auth.credentials-source": "bearer.auth.credentials.source",
    "bearer-auth.token": "bearer.auth.token",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.keystore.location": "ssl.certificate.location",
    "ssl.keystore.password": "ssl.key.password",
}
"""The schema registry client's properties, by option."""
_STORES: Final = ("ssl.truststore.location", "ssl.keystore.location")
_PEM: Final = (".pem", ".crt", ".cer")

_WITH_REGISTRY: Final = frozenset(
    {
        "url",
        "schema-registry.url",
        "subject",
        "schema-registry.subject",
        "schema",
        "schema-registry.schema",
        "properties",
        "ssl.truststore.password",
        *_REGISTRY_PROPERTIES,
    }
)
FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "json": frozenset(
        {
            "fail-on-missing-field",
            "ignore-parse-errors",
            "timestamp-format.standard",
            "map-null-key.mode",
            "map-null-key.literal",
            "encode.decimal-as-plain-number",
            "encode.ignore-null-fields",
        }
    ),
    "csv": frozenset(
        {
            "field-delimiter",
            "disable-quote-character",
            "quote-character",
            "allow-comments",
            "ignore-parse-errors",
            "array-element-delimiter",
            "escape-character",
            "null-literal",
            "write-bigdecimal-in-scientific-notation",
            "trim-spaces",
            "ignore-trailing-unmappable",
            "allow-trailing-comma",
            "fail-on-missing-columns",
            "empty-string-as-null",
        }
    ),
    "raw": frozenset({"charset"}),
    AVRO: frozenset({"encoding", _LEGACY, "codec"}),
    REGISTRY_AVRO: _WITH_REGISTRY,
    DEBEZIUM_AVRO: _WITH_REGISTRY,
    "debezium-json": _CHANGES_IN_JSON | {"schema-include"},
    "canal-json": _CHANGES_IN_JSON | {"database.include", "table.include"},
    "maxwell-json": _CHANGES_IN_JSON,
    "ogg-json": _CHANGES_IN_JSON,
}
"""The options of each format, without its prefix."""


CHANGELOG_FORMATS: Final = (*DIALECTS, DEBEZIUM_AVRO)
"""Formats whose rows are changes."""


def format_metadata(name: str) -> Mapping[str, str]:
    """Returns the metadata columns that a format can read: keys with SQL types."""
    return {key: one.type for key, one in DIALECTS[name].metadata.items()} if name in DIALECTS else {}


def make_reading(name: str, options: Mapping[str, str], row_type: LogicalType, metadata: Sequence[str] = ()) -> Reading:
    """Makes the decoder of a format. ``options``: of the table, with the format's prefix; ``metadata``: keys of the format's metadata columns, which
    are appended. Raises ``InvalidJob`` for an option's value and for a type that the format does not support."""
    given = _Options(name, options)
    match name:
        case "json":
            if given.flag("fail-on-missing-field") and given.flag("ignore-parse-errors"):
                raise InvalidJob("fail-on-missing-field and ignore-parse-errors shouldn't both be true.")
            return JsonReading(
                row_type,
                given.standard(),
                fails_on_missing=given.flag("fail-on-missing-field"),
                ignores_errors=given.flag("ignore-parse-errors"),
            )
        case "csv":
            return CsvReading(
                row_type,
                given.delimiter(),
                given.quote(),
                given.character("escape-character"),
                given.text("null-literal"),
                given.text("array-element-delimiter", ";") or ";",
                allows_comments=given.flag("allow-comments"),
                ignores_errors=given.flag("ignore-parse-errors"),
                trims=given.flag("trim-spaces"),
                ignores_trailing=given.flag("ignore-trailing-unmappable"),
                allows_trailing_delimiter=given.flag("allow-trailing-comma", default=True),
                empty_is_null=given.flag("empty-string-as-null"),
            )
        case _ if name in AVRO_FORMATS:
            return AvroReading(row_type, given.avro_schema(row_type), given.registry(), given.is_avro_json())
        case _ if name == DEBEZIUM_AVRO:
            return ChangelogAvroReading(row_type, given.envelope_schema(row_type), given.registry())
        case _ if name in DIALECTS:
            includes = [(key, given.pattern(f"{key}.include")) for key in ("database", "table")]
            return ChangelogReading(
                row_type,
                name,
                given.standard(),
                given.flag("ignore-parse-errors"),
                tuple(metadata),
                given.flag("schema-include"),
                tuple((key, pattern) for key, pattern in includes if pattern is not None),
            )
        case _:
            check_raw(row_type)
            return RawReading(row_type, given.charset())


def make_writing(name: str, options: Mapping[str, str], row_type: LogicalType) -> Writing:
    """Makes the encoder of a format. Raises ``InvalidJob`` as ``make_reading`` does."""
    given = _Options(name, options)
    match name:
        case "json":
            return _json_writing(given, row_type)
        case "csv":
            csv = CsvWriting(
                row_type,
                given.delimiter(),
                given.quote(),
                given.character("escape-character"),
                given.text("null-literal") or "",
                given.text("array-element-delimiter", ";") or ";",
                decimals_are_plain=not given.flag("write-bigdecimal-in-scientific-notation", default=True),
            )
            csv.check()
            return csv
        case _ if name in AVRO_FORMATS:
            schema, registry = given.avro_schema(row_type), given.registry()
            return AvroWriting(row_type, schema, registry, given.subject(), given.is_avro_json())
        case _ if name == DEBEZIUM_AVRO:
            schema, registry = given.envelope_schema(row_type), given.registry()
            return ChangelogAvroWriting(row_type, AvroWriting(envelope_of(row_type), schema, registry, given.subject()))
        case _ if name in DIALECTS:
            if given.flag("schema-include"):
                raise InvalidJob(
                    "Debezium JSON serialization doesn't support 'debezium-json.schema-include' option been set to true."
                )
            return ChangelogWriting(_json_writing(given, row_type), name)
        case _:
            check_raw(row_type)
            return RawWriting(row_type, given.charset())


def make_file_reading(name: str, options: Mapping[str, str], row_type: LogicalType) -> Reading:
    """Makes the decoder of a format for files. Avro files always use the legacy mapping of timestamps, as in Flink."""
    if name == AVRO:
        options = {key: text for key, text in options.items() if key != f"{AVRO}.{_LEGACY}"}
    return make_reading(name, options, row_type)


def make_file_writing(name: str, options: Mapping[str, str], row_type: LogicalType) -> Writing:
    """Makes the encoder of a format for files. Avro files accept only types of the legacy timestamp mapping, as in Flink; the option changes only type
    names in the header."""
    if name == AVRO:
        schema_text(row_type, is_legacy=True)
    return make_writing(name, options, row_type)


def avro_codec(options: Mapping[str, str]) -> str:
    """Returns the compression codec of Avro files, ``avro.codec``. Raises ``InvalidJob`` for an unknown one."""
    return _Options(AVRO, options).codec()


def _json_writing(given: _Options, row_type: LogicalType) -> JsonWriting:
    made = JsonWriting(
        row_type,
        given.standard(),
        decimals_are_plain=given.flag("encode.decimal-as-plain-number"),
        leaves_nulls_out=given.flag("encode.ignore-null-fields"),
    )
    made.check()
    return made


class _Options:
    """The options of a format; each method raises ``InvalidJob`` for an invalid value."""

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        self._name = name
        self._options = options

    def text(self, key: str, default: str | None = None) -> str | None:
        return self._options.get(f"{self._name}.{key}", default)

    def pattern(self, key: str) -> str | None:
        """Returns an option that is a regular expression."""
        text = self.text(key)
        try:
            re.compile(text or "")
        except re.error as error:
            raise self._invalid(key, text or "", f"a regular expression ({error})") from None
        return text

    def flag(self, key: str, *, default: bool = False) -> bool:
        text = self.text(key)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self._invalid(key, text, "true or false")
        return text.lower() == "true"

    def character(self, key: str, default: str | None = None) -> str | None:
        text = self.text(key, default)
        if text is not None and len(text) != 1:
            raise self._invalid(key, text, "one character")
        return text

    def delimiter(self) -> str:
        """Returns the field delimiter; ``\\t`` may be written as two characters, as in Flink."""
        text = self.text("field-delimiter", ",") or ""
        unescaped = codecs.decode(text, "unicode_escape") if text.startswith("\\") and text != "\\" else text
        if len(unescaped) != 1:
            raise self._invalid("field-delimiter", text, "one character")
        return unescaped

    def quote(self) -> str | None:
        if self.flag("disable-quote-character"):
            if self.text("quote-character") is not None:
                raise InvalidJob(
                    "Format cannot define a quote character and disabled quote character at the same time."
                )
            return None
        return self.character("quote-character", '"')

    def avro_schema(self, row_type: LogicalType) -> str:
        """Returns the Avro schema: the configured one, or that of the row type. Raises ``InvalidJob`` where the two do not match."""
        library()
        is_legacy = self._name == REGISTRY_AVRO or self.flag(_LEGACY, default=True)
        own = schema_text(row_type, is_legacy=is_legacy)
        given = self._registry_text("schema")
        if given is None:
            return own
        if table_type(parse(given)) != row_type.with_nullable(False):
            raise InvalidJob(f"Schema provided for '{self._name}' format does not match the table schema: {given}")
        return given

    def envelope_schema(self, row_type: LogicalType) -> str:
        """Returns the Avro schema of Debezium messages: the configured one, or that of the row type. Raises ``InvalidJob`` where the two do not match."""
        library()
        envelope = envelope_of(row_type)
        own = f'["null",{schema_text(envelope, is_legacy=True)}]'
        given = self._registry_text("schema")
        if given is None:
            return own
        if table_type(parse(given)) != envelope:
            raise InvalidJob(
                f"Schema provided for '{self._name}' format must be a nullable record type with fields 'before', 'after', 'op' and schema of fields "
                f"'before' and 'after' must match the table schema: {given}"
            )
        return given

    def is_avro_json(self) -> bool:
        """Returns whether Avro has its JSON encoding."""
        encoding = self.text("encoding", "binary") or ""
        if encoding.lower() not in ("binary", "json"):
            raise self._invalid("encoding", encoding, "binary or json")
        return encoding.lower() == "json"

    def registry(self) -> SchemaRegistry | None:
        """Returns the client of the schema registry; ``None`` for a format without one."""
        if self._name not in REGISTRY_FORMATS:
            return None
        url = self._registry_text("url")
        if url is None:
            raise InvalidJob("One or more required options are missing.\n\nMissing required options are:\n\nurl")
        for key in _STORES:
            if not (self.text(key) or _PEM[0]).endswith(_PEM):
                raise self._invalid(
                    key, self.text(key) or "", f"a file in PEM, with one of the suffixes {', '.join(_PEM)}"
                )
        properties = self._map("properties")
        properties |= {name: text for key, name in _REGISTRY_PROPERTIES.items() if (text := self.text(key)) is not None}
        return SchemaRegistry(url, properties)

    def subject(self) -> str:
        """Returns the subject under which the schema is registered. Raises ``InvalidJob`` where a registry format has none."""
        found = self._registry_text("subject")
        if found is None and self._name in REGISTRY_FORMATS:
            option = f"{self._name}.subject"
            shown = repr(option) if self._name == DEBEZIUM_AVRO else option  # as Flink's classes have it
            raise InvalidJob(f"Option {shown} is required for serialization")
        return found or ""

    def _registry_text(self, key: str) -> str | None:
        return self.text(key, self.text(f"schema-registry.{key}"))

    def _map(self, key: str) -> dict[str, str]:
        """Returns the pairs of a map option, written ``key.one = ...`` or ``one:...,two:...``."""
        pairs = [one.partition(":")[::2] for one in (self.text(key) or "").split(",") if one]
        prefix = f"{self._name}.{key}."
        return dict(pairs) | {
            name.removeprefix(prefix): text for name, text in self._options.items() if name.startswith(prefix)
        }

    def codec(self) -> str:
        """Returns the compression codec of Avro files. Raises ``InvalidJob`` for an unknown one."""
        found = self.text("codec", "snappy") or ""
        if found not in AVRO_CODECS:
            raise InvalidJob(f"Unrecognized codec: {found}: '{self._name}.codec' takes {', '.join(AVRO_CODECS)}")
        return found

    def standard(self) -> TimestampStandard:
        return self._one_of("timestamp-format.standard", TimestampStandard.SQL.value, TimestampStandard)

    def charset(self) -> str:
        name = self.text("charset", "UTF-8") or "UTF-8"
        try:
            return codecs.lookup(name).name
        except LookupError:
            raise self._invalid("charset", name, "the name of a character set, such as UTF-8") from None

    def _one_of(self, key: str, default: str, make: Callable[[str], TimestampStandard]) -> TimestampStandard:
        text = self.text(key, default) or default
        try:
            return make(text)
        except ValueError:
            raise self._invalid(key, text, "SQL or ISO-8601") from None

    def _invalid(self, key: str, text: str, wanted: str) -> InvalidJob:
        return InvalidJob(f"Invalid value for option '{self._name}.{key}': {text!r}; it takes {wanted}")
