"""Files under PyFlink's names (``pyflink.datastream.connectors.file_system``), as builders over ours.

    FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).process_static_file_set().build()
    FileSink.for_row_format(path, Encoder.simple_string_encoder()).with_rolling_policy(...).build()

``FileSource`` and ``FileSink`` also have the class methods of ``tidegate.connectors``: ``for_csv``, ``for_parquet``, ...
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.common.java_only import refusing
from tidegate.common.serialization import Encoder
from tidegate.connectors.file_encoders import TextEncoderFactory
from tidegate.connectors.file_sink import FileSink as OurFileSink
from tidegate.connectors.file_sink import RollingPolicy as OurRollingPolicy
from tidegate.connectors.file_source import FileSource as OurFileSource
from tidegate.datastream.connectors.row_format import RecordsAsText
from tidegate.model.errors import InvalidJob

__all__ = ["FileSink", "FileSource", "OutputFileConfig", "RollingPolicy", "StreamFormat"]

_UTF_8 = ("utf-8", "utf8")


@dataclass(frozen=True)
class StreamFormat:
    """How the bytes of a file are records: lines of text."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        if charset_name.lower() not in _UTF_8:
            raise InvalidJob(f"files are read as UTF-8, not as {charset_name}")
        return StreamFormat()


class FileSource(OurFileSource):
    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        return FileSourceBuilder(paths)


@dataclass(frozen=True)
class FileSourceBuilder:
    paths: tuple[str, ...]

    def process_static_file_set(self) -> FileSourceBuilder:
        """The files that are there when the job is submitted."""
        return self

    def build(self) -> OurFileSource:
        return OurFileSource.for_text(*self.paths)


class RollingPolicy(OurRollingPolicy):
    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128, rollover_interval: int = 60 * 1000, inactivity_interval: int = 60 * 1000
    ) -> OurRollingPolicy:
        """Sizes in bytes, times in ms. Files are closed at every checkpoint too, so none is idle for long."""
        return OurRollingPolicy(part_size, min(rollover_interval, inactivity_interval))

    @staticmethod
    def on_checkpoint_rolling_policy() -> OurRollingPolicy:
        """Only at checkpoints."""
        return OurRollingPolicy(2**62, 2**62)


@dataclass(frozen=True)
class OutputFileConfig:
    part_prefix: str
    part_suffix: str

    def get_part_prefix(self) -> str:
        return self.part_prefix

    def get_part_suffix(self) -> str:
        return self.part_suffix

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        return OutputFileConfigBuilder()


@dataclass(frozen=True)
class OutputFileConfigBuilder:
    config: OutputFileConfig = OutputFileConfig("part", "")

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        return OutputFileConfigBuilder(replace(self.config, part_prefix=prefix))

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        return OutputFileConfigBuilder(replace(self.config, part_suffix=suffix))

    def build(self) -> OutputFileConfig:
        return self.config


class FileSink(OurFileSink):
    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> RowFormatBuilder:
        if encoder.charset.lower() not in _UTF_8:
            raise InvalidJob(f"files are written as UTF-8, not as {encoder.charset}")
        return RowFormatBuilder(base_path)


class RowFormatFileSink(OurFileSink, RecordsAsText):
    """Every record as one line, as Flink would print it."""


@dataclass(frozen=True)
class RowFormatBuilder:
    base_path: str
    rolling: OurRollingPolicy | None = None
    config: OutputFileConfig = OutputFileConfig("part", "")

    def with_rolling_policy(self, rolling_policy: OurRollingPolicy) -> RowFormatBuilder:
        return replace(self, rolling=rolling_policy)

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> RowFormatBuilder:
        return replace(self, config=output_file_config)

    def build(self) -> OurFileSink:
        factory = TextEncoderFactory(suffix=self.config.part_suffix)
        return RowFormatFileSink(self.base_path, factory, self.rolling, self.config.part_prefix)


__getattr__ = refusing(
    __name__,
    "BucketAssigner BulkFormat FileCompactStrategy FileCompactor FileEnumeratorProvider FileSplitAssignerProvider StreamingFileSink",
    "use FileSource and FileSink, which have for_csv, for_json_lines and for_parquet too",
)
