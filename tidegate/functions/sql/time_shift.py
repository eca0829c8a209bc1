"""Time-zone shifts of windows, which follow the session's local time (Flink: ``TimeWindowUtil.java``).

Windows of TIMESTAMP_LTZ and of processing time begin and end by the clock of the session's time zone: a day may have 23 hours. Local times are ms of the
clock on the wall, as if it stood in UTC.
"""

from __future__ import annotations

from typing import Final

from tidegate.functions.sql.scalar.calendar import offset_at
from tidegate.plan.logical_types import LogicalType, TypeRoot

_HOUR_MS: Final = 3_600_000
"""The step in which Flink looks for local times that occur twice, or not at all."""
_DAY_S: Final = 86_400
"""The distance at which the zone's offsets before and after a transition are looked up."""
_UTC: Final = ("UTC", "Etc/UTC", "GMT", "Z")


class TimeShift:
    """Converts between moments and local times. ``zone``: the name of a time zone; UTC shifts nothing."""

    def __init__(self, zone: str = "UTC") -> None:
        self._zone: Final = zone
        self._is_utc: Final = zone in _UTC

    @property
    def is_utc(self) -> bool:
        """Whether local times are those of UTC."""
        return self._is_utc

    def local(self, ms: int) -> int:
        """Returns the local time of a moment in ms since 1970."""
        return ms if self._is_utc else ms + offset_at(ms // 1000, self._zone) * 1000

    def moment(self, local_ms: int) -> int:
        """Returns the moment of a local time: the first one where it occurs twice, an hour later where it does not exist."""
        if self._is_utc:
            return local_ms
        second, zone = local_ms // 1000, self._zone
        before, after = offset_at(second - _DAY_S, zone), offset_at(second + _DAY_S, zone)
        is_after = (
            before != after and offset_at(second - before, zone) != before and offset_at(second - after, zone) == after
        )
        return local_ms - (after if is_after else before) * 1000

    def due(self, local_ms: int) -> int:
        """Returns the moment when a window fires whose last ms has that local time: the last one where it occurs twice, and the transition where it
        does not exist."""
        moment = self.moment(local_ms)
        if self._is_utc:
            return moment
        later = self.moment(local_ms + _HOUR_MS)
        if later - moment > _HOUR_MS:
            return later - _HOUR_MS
        return moment // _HOUR_MS * _HOUR_MS if later == moment else moment


def shift_of(time: LogicalType, zone: str) -> TimeShift:
    """Returns the shift for windows of a time attribute; TIMESTAMP needs none."""
    return TimeShift(zone if time.root is TypeRoot.TIMESTAMP_LTZ else "UTC")


__all__ = ["TimeShift", "shift_of"]
