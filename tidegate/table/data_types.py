"""`DataTypes`: types of the columns of a table (PyFlink: ``pyflink.table.types``), which are those of streams here."""

from __future__ import annotations

from tidegate.common.typeinfo import Types

__all__ = ["DataTypes"]


class DataTypes:
    BOOLEAN = staticmethod(Types.BOOLEAN)
    TINYINT = staticmethod(Types.BYTE)
    SMALLINT = staticmethod(Types.SHORT)
    INT = staticmethod(Types.INT)
    BIGINT = staticmethod(Types.LONG)
    FLOAT = staticmethod(Types.FLOAT)
    DOUBLE = staticmethod(Types.DOUBLE)
    STRING = staticmethod(Types.STRING)
