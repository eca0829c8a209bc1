"""`FormatDescriptor` and `TableDescriptor` under PyFlink's name (``pyflink.table.table_descriptor``)."""

from tidegate.table.descriptors import FormatDescriptor, TableDescriptor

__all__ = ["FormatDescriptor", "TableDescriptor"]
