# For type checkers: the modules named here import this package, so that it finds the names when they are asked for.
from tidegate.connectors.file_sink import FileSink as FileSink
from tidegate.connectors.file_sink import RollingPolicy as RollingPolicy
from tidegate.connectors.file_source import BAD_LINE as BAD_LINE
from tidegate.connectors.file_source import FileSource as FileSource
from tidegate.connectors.files.buckets import DateTimeBuckets as DateTimeBuckets
