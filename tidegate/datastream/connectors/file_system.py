"""Files under PyFlink's names (``pyflink.datastream.connectors.file_system``), as builders over ours.

    FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).process_static_file_set().build()
    FileSink.for_row_format(path, Encoder.simple_string_encoder()).with_rolling_policy(...).build()
    FileSink.for_bulk_format(path, CsvBulkWriters.for_schema(schema)).build()

``FileSource`` and ``FileSink`` also have the class methods of ``tidegate.connectors``: ``for_csv``, ``for_parquet``, ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only
from tidegate.common.serialization import BulkWriterFactory, Encoder
from tidegate.common.time import Duration
from tidegate.connectors.file_sink import FileSink as OurFileSink
from tidegate.connectors.file_sink import RollingPolicy as OurRollingPolicy
from tidegate.connectors.file_source import DEFAULT_RANGE_BYTES
from tidegate.connectors.file_source import FileSource as OurFileSource
from tidegate.connectors.files.buckets import DateTimeBuckets
from tidegate.connectors.files.encoders import TextEncoderFactory
from tidegate.connectors.files.formats import FileFormat, TextFormat
from tidegate.datastream.connectors.row_format import RecordsAsText
from tidegate.datastream.formats.bulk import EncodedBulkWriterFactory
from tidegate.model.errors import InvalidJob

_JAVA = "FileCompactStrategy FileCompactor StreamingFileSink"

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
]

_WHOLE_FILE_BYTES = 2**62
_UTF_8 = ("utf-8", "utf8")


@dataclass(frozen=True)
class StreamFormat:
    """How the bytes of a file are records: lines of text, or rows (``tidegate.datastream.formats.csv.CsvReaderFormat``)."""

    file_format: FileFormat

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        if charset_name.lower() not in _UTF_8:
            raise InvalidJob(f"files are read as UTF-8, not as {charset_name}")
        return StreamFormat(TextFormat())


@dataclass(frozen=True)
class BulkFormat:
    """Batches of rows from files (``tidegate.datastream.formats.parquet.ParquetColumnarRowInputFormat``)."""

    file_format: FileFormat


class FileSource(OurFileSource):
    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        return FileSourceBuilder(paths, stream_format.file_format)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        return FileSourceBuilder(paths, bulk_format.file_format)


@dataclass(frozen=True)
class FileEnumeratorProvider:
    """How files become splits. ``is_splittable``: a large file becomes several, which are read in parallel."""

    is_splittable: bool

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        return FileEnumeratorProvider(is_splittable=True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        return FileEnumeratorProvider(is_splittable=False)


@dataclass(frozen=True)
class FileSplitAssignerProvider:
    """Both of Flink's mean the same here: no machine is nearer to a file than another, so splits are dealt evenly."""

    @staticmethod
    def simple_split_assigner() -> FileSplitAssignerProvider:
        return FileSplitAssignerProvider()

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        return FileSplitAssignerProvider()


@dataclass(frozen=True)
class FileSourceBuilder:
    paths: tuple[str, ...]
    file_format: FileFormat
    interval_ms: int | None = None
    is_splittable: bool = True

    def process_static_file_set(self) -> FileSourceBuilder:
        """The files that are there when the job is submitted."""
        return replace(self, interval_ms=None)

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """No end: files that come later are found within the interval."""
        return replace(self, interval_ms=discovery_interval.to_millis())

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        return replace(self, is_splittable=file_enumerator.is_splittable)

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        return self

    def build(self) -> OurFileSource:
        range_bytes = DEFAULT_RANGE_BYTES if self.is_splittable else _WHOLE_FILE_BYTES
        found = OurFileSource(self.paths, self.file_format, range_bytes)
        return found if self.interval_ms is None else found.monitor_continuously(self.interval_ms)


class RollingPolicy(OurRollingPolicy):
    """When a part file ends, beside every checkpoint: by its size and age, or by nothing else."""

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128, rollover_interval: int = 60 * 1000, inactivity_interval: int = 60 * 1000
    ) -> DefaultRollingPolicy:
        """Sizes in bytes, times in ms. Files are closed at every checkpoint too, so none is idle for long."""
        return DefaultRollingPolicy(part_size, min(rollover_interval, inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Only at checkpoints."""
        return OnCheckpointRollingPolicy(2**62, 2**62)


class DefaultRollingPolicy(RollingPolicy):
    """``RollingPolicy.default_rolling_policy`` makes one."""


class OnCheckpointRollingPolicy(RollingPolicy):
    """``RollingPolicy.on_checkpoint_rolling_policy`` makes one. The only kind that Flink takes for bulk formats."""


@dataclass(frozen=True)
class OutputFileConfig:
    """How the names of part files begin and end."""

    part_prefix: str
    part_suffix: str

    class OutputFileConfigBuilder:
        def __init__(self) -> None:
            self._made = OutputFileConfig("part", "")

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self._made = replace(self._made, part_prefix=prefix)
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            self._made = replace(self._made, part_suffix=suffix)
            return self

        def build(self) -> OutputFileConfig:
            return self._made

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        return self.part_prefix

    def get_part_suffix(self) -> str:
        return self.part_suffix


@dataclass(frozen=True)
class BucketAssigner:
    """Which directory below the output path a part file goes to."""

    buckets: DateTimeBuckets | None = None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """All into the output path itself."""
        return BucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """One for each hour, or whatever ``format_str`` tells apart, at which part files are begun. Raises ``InvalidJob``."""
        return BucketAssigner(DateTimeBuckets(format_str, timezone_id))


class RowFormatFileSink(OurFileSink, RecordsAsText):
    """Every record as one line, as Flink would print it."""


@dataclass(frozen=True)
class _BaseBuilder(ABC):
    base_path: str
    rolling: OurRollingPolicy | None = None
    config: OutputFileConfig = OutputFileConfig("part", "")
    buckets: DateTimeBuckets | None = field(default_factory=DateTimeBuckets)

    def with_rolling_policy(self, rolling_policy: OurRollingPolicy) -> Self:
        return replace(self, rolling=rolling_policy)

    def with_bucket_check_interval(self, interval: int) -> Self:
        """Accepted: the age of a part file is looked at with every batch, whatever the interval in ms."""
        return self

    def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
        """Without it: a directory for each hour."""
        return replace(self, buckets=bucket_assigner.buckets)

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
        return replace(self, config=output_file_config)

    def enable_compact(self, strategy: Any, compactor: Any) -> Self:
        """Refused."""
        raise InvalidJob("part files are not compacted: let fewer of them begin, with a longer checkpoint interval")

    def disable_compact(self) -> Self:
        """As it is."""
        return self

    @abstractmethod
    def build(self) -> OurFileSink: ...


@dataclass(frozen=True)
class _RowFormatBuilder(_BaseBuilder):
    def build(self) -> OurFileSink:
        factory = TextEncoderFactory(suffix=self.config.part_suffix)
        return RowFormatFileSink(self.base_path, factory, self.rolling, self.config.part_prefix, self.buckets)


@dataclass(frozen=True, kw_only=True)
class _BulkFormatBuilder(_BaseBuilder):
    writer_factory: EncodedBulkWriterFactory

    def build(self) -> OurFileSink:
        encoder = self.writer_factory.encoder_of(self.config.part_suffix)
        return OurFileSink(self.base_path, encoder, self.rolling, self.config.part_prefix, self.buckets)


class FileSink(OurFileSink):
    BaseBuilder: TypeAlias = _BaseBuilder
    RowFormatBuilder: TypeAlias = _RowFormatBuilder
    BulkFormatBuilder: TypeAlias = _BulkFormatBuilder

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> _RowFormatBuilder:
        if encoder.charset.lower() not in _UTF_8:
            raise InvalidJob(f"files are written as UTF-8, not as {encoder.charset}")
        return _RowFormatBuilder(base_path)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> _BulkFormatBuilder:
        """``writer_factory`` is one of ``tidegate.datastream.formats``. Raises ``InvalidJob`` for others."""
        if not isinstance(writer_factory, EncodedBulkWriterFactory):
            raise InvalidJob(
                f"{writer_factory!r} writes no files: use CsvBulkWriters, ParquetBulkWriters or OrcBulkWriters"
            )
        return _BulkFormatBuilder(base_path, writer_factory=writer_factory)


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
