"""`Schema` under PyFlink's name (``pyflink.table.schema``)."""

from tidegate.table.descriptors import Schema

__all__ = ["Schema"]
