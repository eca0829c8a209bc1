"""PyFlink's further classes of types: calling one returns tidegate's equivalent type, and ``isinstance`` recognizes it.

DateTypeInfo() == Types.SQL_DATE()      isinstance(Types.SQL_DATE(), DateTypeInfo)
"""

from __future__ import annotations

import calendar
import datetime as dt
import time
from abc import ABCMeta
from enum import Enum

from tidegate.model.errors import InvalidJob
from tidegate.records.type_information import BasicType, BasicTypeInfo, SqlTimeTypeInfo, TypeInformation

__all__ = [
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "LocalTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
]


class _StandsFor(ABCMeta):
    """A metaclass of classes whose instances are those of another class, ``_means``."""

    _means: tuple[TypeInformation, ...] = ()

    def __call__(cls, *args: object, **kwargs: object) -> TypeInformation:
        return cls.type_of(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return instance in cls._means

    def type_of(cls) -> TypeInformation:
        return cls._means[0]


class DateTypeInfo(SqlTimeTypeInfo, metaclass=_StandsFor):
    """Stands for ``Types.SQL_DATE()``."""

    EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
    _means = (SqlTimeTypeInfo("Date"),)


class TimeTypeInfo(SqlTimeTypeInfo, metaclass=_StandsFor):
    """Stands for ``Types.SQL_TIME()``."""

    EPOCH_ORDINAL = calendar.timegm(time.localtime(0)) * 10**6
    _means = (SqlTimeTypeInfo("Time"),)


class TimestampTypeInfo(SqlTimeTypeInfo, metaclass=_StandsFor):
    """Stands for ``Types.SQL_TIMESTAMP()``."""

    _means = (SqlTimeTypeInfo("Timestamp"),)


class LocalTimeTypeInfo(SqlTimeTypeInfo, metaclass=_StandsFor):
    """Stands for dates and times without a zone: ``Types.SQL_DATE()`` and so on, since Python has one class for each."""

    class TimeType(Enum):
        """The kinds of local times."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    _means = (SqlTimeTypeInfo("Date"), SqlTimeTypeInfo("Time"), SqlTimeTypeInfo("Timestamp"))

    @classmethod
    def type_of(cls, time_type: LocalTimeTypeInfo.TimeType) -> TypeInformation:
        """Returns the equivalent of PyFlink's ``LocalTimeTypeInfo(time_type)``."""
        return cls._means[time_type.value]


class InstantTypeInfo(BasicTypeInfo, metaclass=_StandsFor):
    """Stands for ``Types.INSTANT()``."""

    _means = (BasicTypeInfo(BasicType.INSTANT),)

    @classmethod
    def type_of(cls, basic_type: BasicType) -> TypeInformation:
        """Returns ``Types.INSTANT()``. Raises ``InvalidJob`` for any other basic type."""
        if basic_type is not BasicType.INSTANT:
            raise InvalidJob(
                f"InstantTypeInfo is the type of instants, not of {basic_type}; take a type of Types, such as Types.LONG()"
            )
        return cls._means[0]


class ExternalTypeInfo(TypeInformation, metaclass=_StandsFor):
    """Stands for the type that it wraps; PyFlink uses it to describe types to the JVM, which is not needed here."""

    @classmethod
    def type_of(cls, type_info: TypeInformation) -> TypeInformation:
        """Returns the given type."""
        return type_info
