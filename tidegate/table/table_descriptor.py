"""`TableDescriptor` and `FormatDescriptor` under PyFlink's name (``pyflink.table.table_descriptor``)."""

from tidegate.common.config_options import ConfigOption as ConfigOption
from tidegate.table.descriptors import FormatDescriptor, TableDescriptor
from tidegate.table.descriptors import Schema as Schema

__all__ = ["FormatDescriptor", "TableDescriptor"]
