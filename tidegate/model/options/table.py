"""Options of SQL (Flink: `TableConfigOptions`)."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidegate.model.options.option import ConfigOption, ValueType

_FIXED = re.compile(r"GMT([+-](0[0-9]|1[0-8]):[0-5][0-9])")


def fixed_offset(zone: str) -> str | None:
    """Returns the offset of a zone such as `GMT+05:45` (`+05:45`); `None` for a named zone."""
    found = _FIXED.fullmatch(zone)
    return found.group(1) if found else None


def _parse_zone(text: str) -> str:
    zone = text.strip()
    if zone == "default":
        raise ValueError("'default' may mean another time zone in each process: name a zone, such as Europe/Berlin")
    if zone == "UTC" or fixed_offset(zone):
        return zone
    try:
        return ZoneInfo(zone).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{text!r} is not a time zone, such as Europe/Berlin, GMT+05:45 or UTC") from None


TIME_ZONE: ValueType[str] = ValueType("time zone", _parse_zone, str)


class TableOptions:
    """Options of how SQL reads and computes."""

    LOCAL_TIME_ZONE: ConfigOption[str] = ConfigOption(
        "table.local-time-zone",
        TIME_ZONE,
        "UTC",
        "The zone in which SQL turns instants into dates, times and texts, and back: a name such as `Europe/Berlin`, or "
        "`GMT+05:45`. The zone of a process never counts.",
        deviation="Flink's is the zone of the machine, which may be another one on each",
    )
