"""File sources and sinks under PyFlink's names (``pyflink.datastream.connectors.file_system``), as builders of tidegate's connectors.

    FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).process_static_file_set().build()
    FileSink.for_row_format(path, Encoder.simple_string_encoder()).with_rolling_policy(...).build()
    FileSink.for_bulk_format(path, CsvBulkWriters.for_schema(schema)).build()

``FileSource`` and ``FileSink`` also have the class methods of ``tidegate.connectors``: ``for_csv``, ``for_parquet``, ...
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only
from tidegate.common.names.shipping import Shipped, shipped_as
from tidegate.common.serialization import BulkWriterFactory, Encoder
from tidegate.common.time import Duration
from tidegate.connectors.file_sink import FileSink as OurFileSink
from tidegate.connectors.file_sink import RollingPolicy as OurRollingPolicy
from tidegate.connectors.file_source import DEFAULT_RANGE_BYTES
from tidegate.connectors.file_source import FileSource as OurFileSource
from tidegate.connectors.files.buckets import DateTimeBuckets
from tidegate.connectors.files.encoders import TextEncoderFactory
from tidegate.connectors.files.formats import FileFormat, TextFormat
from tidegate.datastream.connectors.bulk_writers import EncodedBulkWriterFactory
from tidegate.datastream.connectors.row_format import RecordsAsText
from tidegate.model.errors import InvalidJob

_JAVA = "FileCompactStrategy FileCompactor"

__all__ = [
    *_JAVA.split(),
    "BucketAssigner",
    "BulkFormat",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]

_WHOLE_FILE_BYTES = 2**62
"""More bytes than any file has."""
_UTF_8 = ("utf-8", "utf8")
_DEPRECATED = "Deprecated in 1.15. Use FileSink instead."
"""PyFlink's deprecation message."""


@dataclass(frozen=True)
class StreamFormat:
    """A format of files that yields record after record: lines of text, or rows (``tidegate.datastream.formats.csv.CsvReaderFormat``)."""

    file_format: FileFormat

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Reads each line as a ``str``, without its line end. Raises ``InvalidJob`` for a charset other than UTF-8."""
        if charset_name.lower() not in _UTF_8:
            raise InvalidJob(f"files are read as UTF-8, not as {charset_name}")
        return StreamFormat(TextFormat())


@dataclass(frozen=True)
class BulkFormat:
    """A format of files that yields batches of rows (``tidegate.datastream.formats.parquet.ParquetColumnarRowInputFormat``)."""

    file_format: FileFormat


class FileSource(OurFileSource):
    """Reads files under PyFlink's names; the builders below create it."""

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Returns a builder of a source whose format yields record after record. Directories are read recursively."""
        return FileSourceBuilder(paths, stream_format.file_format)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Returns a builder of a source whose format yields batches of records. Directories are read recursively."""
        return FileSourceBuilder(paths, bulk_format.file_format)


@dataclass(frozen=True)
class FileEnumeratorProvider:
    """How files are split. ``is_splittable``: large files become several splits, which are read in parallel."""

    is_splittable: bool

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Returns the enumerator that lets several subtasks read parts of one large file."""
        return FileEnumeratorProvider(is_splittable=True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Returns the enumerator that keeps each file whole."""
        return FileEnumeratorProvider(is_splittable=False)


@dataclass(frozen=True)
class FileSplitAssignerProvider:
    """How splits are assigned; both of Flink's assigners distribute them evenly here, since all machines are equally near to a file."""

    @staticmethod
    def simple_split_assigner() -> FileSplitAssignerProvider:
        """Returns the assigner that deals splits evenly."""
        return FileSplitAssignerProvider()

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Returns the same as ``simple_split_assigner``, since no machine is nearer to a file than another."""
        return FileSplitAssignerProvider()


@dataclass(frozen=True)
class FileSourceBuilder:
    """Builds a ``FileSource`` (PyFlink: ``FileSourceBuilder``). Each method returns a new builder."""

    paths: tuple[str, ...]
    file_format: FileFormat
    interval_ms: int | None = None
    is_splittable: bool = True

    def process_static_file_set(self) -> FileSourceBuilder:
        """Reads the files that are there when the job is submitted, and ends."""
        return replace(self, interval_ms=None)

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Makes the source unbounded: it finds new files within the interval."""
        return replace(self, interval_ms=discovery_interval.to_millis())

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Sets whether large files are split."""
        return replace(self, is_splittable=file_enumerator.is_splittable)

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accepts an assigner, which has no effect because splits are always dealt evenly."""
        return self

    def build(self) -> OurFileSource:
        """Returns the source: bounded, unless ``monitor_continuously`` was called."""
        range_bytes = DEFAULT_RANGE_BYTES if self.is_splittable else _WHOLE_FILE_BYTES
        found = OurFileSource(self.paths, self.file_format, range_bytes)
        return found if self.interval_ms is None else found.monitor_continuously(self.interval_ms)


class RollingPolicy(OurRollingPolicy):
    """When a part file is closed, besides at every checkpoint: by size and age, or never."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128, rollover_interval: int = 60 * 1000, inactivity_interval: int = 60 * 1000
    ) -> DefaultRollingPolicy:
        """Creates a rolling policy that closes part files by size and age: at ``part_size`` bytes, or at the shorter of the two intervals
        (ms).

        Inactivity is not measured: ``inactivity_interval`` limits the age too. Part files are also closed at every checkpoint, so none
        is idle for long.
        """
        return DefaultRollingPolicy(part_size, min(rollover_interval, inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Ends files at checkpoints only."""
        return OnCheckpointRollingPolicy(2**62, 2**62)

    def __reduce__(self) -> Shipped:
        return shipped_as(OurRollingPolicy, self)


class DefaultRollingPolicy(RollingPolicy):
    """The policy of ``RollingPolicy.default_rolling_policy``."""


class OnCheckpointRollingPolicy(RollingPolicy):
    """The policy of ``RollingPolicy.on_checkpoint_rolling_policy``: the only kind that Flink accepts for bulk formats."""


@dataclass(frozen=True)
class OutputFileConfig:
    """Prefix and suffix of the names of part files."""

    part_prefix: str
    part_suffix: str

    class OutputFileConfigBuilder:
        """Builds an ``OutputFileConfig``."""

        def __init__(self) -> None:
            self._made = OutputFileConfig("part", "")

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Sets the prefix of part files' names."""
            self._made = replace(self._made, part_prefix=prefix)
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Sets the suffix of part files' names."""
            self._made = replace(self._made, part_suffix=suffix)
            return self

        def build(self) -> OutputFileConfig:
            """Returns the configuration."""
            return self._made

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Returns a builder, without prefix and suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Returns the prefix of part files' names."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Returns the suffix of part files' names."""
        return self.part_suffix


@dataclass(frozen=True)
class BucketAssigner:
    """Chooses the directory below the output path for a part file."""

    buckets: DateTimeBuckets | None = None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Writes all files to the output path itself."""
        return BucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Writes a file to a directory for the time at which it was begun, by default one for each hour. Raises ``InvalidJob`` for an invalid pattern
        or zone."""
        return BucketAssigner(DateTimeBuckets(format_str, timezone_id))


class RowFormatFileSink(OurFileSink, RecordsAsText):
    """Writes every record as one line, in the form in which Flink prints it."""

    def __reduce__(self) -> Shipped:
        return shipped_as(OurFileSink, self)


@dataclass(frozen=True)
class _BaseBuilder(ABC):
    """The builder of file sinks that both formats share."""

    base_path: str
    rolling: OurRollingPolicy | None = None
    config: OutputFileConfig = OutputFileConfig("part", "")
    buckets: DateTimeBuckets | None = field(default_factory=DateTimeBuckets)

    def with_rolling_policy(self, rolling_policy: OurRollingPolicy) -> Self:
        """Sets when a part file is closed, besides at every checkpoint."""
        return replace(self, rolling=rolling_policy)

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Accepts an interval in milliseconds, which has no effect: the age of a part file is checked with every batch."""
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Sets the directories of part files; without it there is one for each hour."""
        return replace(self, buckets=bucket_assigner.buckets)

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        """Sets prefix and suffix of part files' names."""
        return replace(self, config=output_file_config)

    def enable_compact(self, strategy: object, compactor: object) -> Self:
        """Raises ``InvalidJob``: part files are not compacted."""
        raise InvalidJob("tidegate does not compact part files: write fewer of them, with a longer checkpoint interval")

    def disable_compact(self) -> Self:
        """Does nothing: part files are not compacted."""
        return self

    @abstractmethod
    def build(self) -> OurFileSink:
        """Returns the sink."""


@dataclass(frozen=True)
class _RowFormatBuilder(_BaseBuilder):
    """Builds a sink that writes one record after another (PyFlink: ``FileSink.RowFormatBuilder``)."""

    def build(self) -> OurFileSink:
        factory = TextEncoderFactory(suffix=self.config.part_suffix)
        return RowFormatFileSink(self.base_path, factory, self.rolling, self.config.part_prefix, self.buckets)


@dataclass(frozen=True, kw_only=True)
class _BulkFormatBuilder(_BaseBuilder):
    """Builds a sink that writes batches of records (PyFlink: ``FileSink.BulkFormatBuilder``)."""

    writer_factory: EncodedBulkWriterFactory

    def build(self) -> OurFileSink:
        encoder = self.writer_factory.encoder_of(self.config.part_suffix)
        return OurFileSink(self.base_path, encoder, self.rolling, self.config.part_prefix, self.buckets)


class FileSink(OurFileSink):
    """Writes files under PyFlink's names; the builders below create it."""

    BaseBuilder: TypeAlias = _BaseBuilder
    RowFormatBuilder: TypeAlias = _RowFormatBuilder
    BulkFormatBuilder: TypeAlias = _BulkFormatBuilder

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> _RowFormatBuilder:
        """Returns a builder of a sink that writes one record after another with an encoder. Raises ``InvalidJob`` for a charset other than UTF-8."""
        if encoder.charset.lower() not in _UTF_8:
            raise InvalidJob(f"files are written as UTF-8, not as {encoder.charset}")
        return _RowFormatBuilder(base_path)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> _BulkFormatBuilder:
        """Returns a builder of a sink that writes batches of records. ``writer_factory``: of ``tidegate.datastream.formats``. Raises ``InvalidJob`` for
        others."""
        if not isinstance(writer_factory, EncodedBulkWriterFactory):
            raise InvalidJob(
                f"{writer_factory!r} cannot write files: use CsvBulkWriters, ParquetBulkWriters or OrcBulkWriters"
            )
        return _BulkFormatBuilder(base_path, writer_factory=writer_factory)


class _StreamingBuilder(_BaseBuilder):
    """The builder of ``StreamingFileSink``, for what it names otherwise than ``FileSink``."""

    def with_rolling_policy(self, policy: OurRollingPolicy) -> Self:
        """Sets when a part file is closed, besides at every checkpoint."""
        return super().with_rolling_policy(policy)


@dataclass(frozen=True)
class _StreamingRowFormatBuilder(_StreamingBuilder, _RowFormatBuilder):
    """Builds a sink of rows (PyFlink: ``StreamingFileSink.DefaultRowFormatBuilder``)."""


@dataclass(frozen=True, kw_only=True)
class _StreamingBulkFormatBuilder(_StreamingBuilder, _BulkFormatBuilder):
    """Builds a sink of batches (PyFlink: ``StreamingFileSink.DefaultBulkFormatBuilder``)."""


class StreamingFileSink(OurFileSink):
    """Builds the sinks of ``FileSink``, for ``DataStream.add_sink``. Deprecated in Flink since 1.15, where with its default policy it leaves the last
    part file of a bounded stream hidden, which is committed here."""

    BaseBuilder: TypeAlias = _StreamingBuilder
    DefaultRowFormatBuilder: TypeAlias = _StreamingRowFormatBuilder
    DefaultBulkFormatBuilder: TypeAlias = _StreamingBulkFormatBuilder

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> _StreamingRowFormatBuilder:
        """Returns a builder like ``FileSink.for_row_format``."""
        warnings.warn(_DEPRECATED, DeprecationWarning, stacklevel=2)
        FileSink.for_row_format(base_path, encoder)
        return _StreamingRowFormatBuilder(base_path)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> _StreamingBulkFormatBuilder:
        """Returns a builder like ``FileSink.for_bulk_format``."""
        warnings.warn(_DEPRECATED, DeprecationWarning, stacklevel=2)
        made = FileSink.for_bulk_format(base_path, writer_factory)
        return _StreamingBulkFormatBuilder(base_path, writer_factory=made.writer_factory)


__getattr__ = finding(
    __name__,
    java_only(
        __name__,
        _JAVA,
        "use FileSource and FileSink, which have for_csv, for_json_lines and for_parquet too",
    ),
    elsewhere("tidegate.common.serialization", "RowDataBulkWriterFactory"),
    elsewhere("tidegate.datastream.connectors.base", "Sink Source"),
    elsewhere("tidegate.functions.java_functions", "SinkFunction"),
)
