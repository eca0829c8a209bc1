"""The time zone of a query: ``table.local-time-zone``, else UTC. The client's or a worker's own zone is never used.

It is the zone in which instants (``TIMESTAMP WITH TIME ZONE``) become dates, times and texts and the other way round, and in
which windows over instants begin: a window of a day at midnight there. Timestamps without a zone are what they say.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import cache
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidegate.model.configuration import Configuration
from tidegate.model.errors import InvalidJob
from tidegate.model.options import TableOptions
from tidegate.model.options.table import fixed_offset

_FIRST_DAY = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAYS = 70 * 365
"""How many days are checked: from 1970 past 2037, where the tables of time zones end."""


def zone_of(configuration: Mapping[str, str]) -> str:
    """Returns the zone that the options of an environment set. Raises ``ConfigurationError``."""
    return Configuration.from_strings(configuration).get(TableOptions.LOCAL_TIME_ZONE)


def labelled(kind: pa.DataType, zone: str) -> pa.DataType:
    """Returns a DuckDB type as Arrow names its zone: ``GMT+05:45`` is ``+05:45`` there."""
    offset = fixed_offset(zone)
    if offset is None:
        return kind
    if pa.types.is_timestamp(kind) and kind.tz == zone:
        return pa.timestamp(kind.unit, offset)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(labelled(field.type, zone)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(labelled(kind.key_type, zone), labelled(kind.item_type, zone))
    if pa.types.is_list(kind):
        return pa.list_(labelled(kind.value_type, zone))
    return kind


def window_shift_ms(text: str, zone: str, slide_ms: int) -> int:
    """Returns the offset of windows over instants in ms, so that they start where the zone's days do, as in Flink. Raises ``InvalidJob`` where one
    offset does not fit all days of the zone."""
    shifts = {-offset_ms % slide_ms for offset_ms in _offsets_ms(zone)}
    if len(shifts) > 1:
        raise InvalidJob(
            f"sql: windows of {slide_ms} ms over instants have no fixed beginning in {zone}, whose offset from UTC changes: "
            "set table.local-time-zone to UTC or to a fixed offset such as GMT+05:45, or take windows that divide an hour: "
            f"{text}"
        )
    return shifts.pop()


@cache
def _offsets_ms(zone: str) -> frozenset[int]:
    """Returns all offsets from UTC that the zone has had or has planned since 1970."""
    offset = fixed_offset(zone)
    if zone == "UTC" or offset is not None:
        hours, minutes = map(int, (offset or "+00:00")[1:].split(":"))
        sign = -1 if offset and offset[0] == "-" else 1
        return frozenset([sign * (hours * 60 + minutes) * 60_000])
    rules = ZoneInfo(zone)
    days = (_FIRST_DAY + datetime.timedelta(days=n) for n in range(_DAYS))
    found = {day.astimezone(rules).utcoffset() for day in days}
    return frozenset(int(one.total_seconds() * 1000) for one in found if one is not None)
