"""Sums and differences of times and intervals, after Flink's ``DateTimeUtils.addMonths`` and ``subtractMonths`` (2.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.functions.sql.scalar.arrow_types import time_unit
from tidegate.functions.sql.scalar.calendar import (
    DAY_MS,
    UNITS_PER_SECOND,
    Longs,
    add_months,
    civil_from_days,
    to_millis,
    truncating_divide,
)
from tidegate.functions.sql.scalar.kernels import elementwise, from_numpy, longs, null_mask
from tidegate.functions.sql.scalar.registry import Evaluate, ScalarCall
from tidegate.plan.logical_types import LogicalType, TypeRoot

INTERVALS = (TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH)
STAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def temporal_sum(call: ScalarCall, is_negated: bool) -> Evaluate:
    """Builds the sum of a time and an interval in any order, or of two intervals."""
    left, right = (operand.type for operand in call.operands)
    if left.root in INTERVALS and right.root not in INTERVALS:
        moment, interval, swapped = right, left, True
    else:
        moment, interval, swapped = left, right, False
    if interval.root not in INTERVALS or (moment.root in INTERVALS and moment.root is not interval.root):
        raise call.refuse()
    sign = -1 if is_negated else 1

    def add(a: pa.Array, b: pa.Array) -> pa.Array:
        mask = null_mask(a, b)
        values, spans = (longs(b), longs(a)) if swapped else (longs(a), longs(b))
        return from_numpy(_add(moment, values, interval, spans * sign), call.arrow, mask)

    if moment.root not in (*INTERVALS, *STAMPS, TypeRoot.DATE, TypeRoot.TIME):
        raise call.refuse()
    return elementwise(call, add)


def _add(moment: LogicalType, values: Longs, interval: LogicalType, spans: Longs) -> Longs:
    if moment.root in INTERVALS:
        return values + spans
    if interval.root is TypeRoot.INTERVAL_DAY_TIME:
        match moment.root:
            case TypeRoot.DATE:
                return values + truncating_divide(spans, DAY_MS)
            case TypeRoot.TIME:
                return (values + spans) % DAY_MS
        return values + spans * (UNITS_PER_SECOND[time_unit(moment)] // 1000)
    match moment.root:
        case TypeRoot.DATE:
            return add_months(values, spans)
        case TypeRoot.TIME:
            return values
    day = 86_400 * UNITS_PER_SECOND[time_unit(moment)]
    return add_months(values // day, spans) * day + values % day


def temporal_difference(call: ScalarCall) -> Evaluate:
    """Builds the difference of two times: in ms, or in whole months."""
    left, right = (operand.type for operand in call.operands)
    if call.type.root not in INTERVALS:
        raise call.refuse()
    for one in (left, right):
        if one.root not in (*STAMPS, TypeRoot.DATE, TypeRoot.TIME):
            raise call.refuse()
    if left.root is not right.root and TypeRoot.TIMESTAMP_LTZ in (left.root, right.root):
        raise call.refuse("TIMESTAMP_LTZ only supports diff between the same type.")
    in_months = call.type.root is TypeRoot.INTERVAL_YEAR_MONTH

    def millis(array: pa.Array, type: LogicalType) -> Longs:
        values = longs(array)
        match type.root:
            case TypeRoot.DATE:
                return values * DAY_MS
            case TypeRoot.TIME:
                return values
        return to_millis(values, UNITS_PER_SECOND[time_unit(type)])

    def subtract(a: pa.Array, b: pa.Array) -> pa.Array:
        first, second = millis(a, left), millis(b, right)
        found = months_between(first, second) if in_months else first - second
        return from_numpy(found, call.arrow, null_mask(a, b))

    return elementwise(call, subtract)


def months_between(later: Longs, earlier: Longs) -> Any:
    """Returns the whole months between moments in ms; negative where the first is the earlier."""
    days, since = later // DAY_MS, earlier // DAY_MS
    months = _months_between_days(days, since)
    short = (add_months(since, months) == days) & (later % DAY_MS < earlier % DAY_MS)
    return months - short


def _months_between_days(later: Longs, earlier: Longs) -> Longs:
    swapped = later < earlier
    high, low = np.where(swapped, earlier, later), np.where(swapped, later, earlier)
    year, month, _ = civil_from_days(high)
    since_year, since_month, _ = civil_from_days(low)
    months = (year - since_year) * 12 + month - since_month
    months = months - (add_months(low, months) > high)
    return np.where(swapped, -months, months)
