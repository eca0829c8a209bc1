"""Base classes of users' aggregate functions under PyFlink's name (``pyflink.table.functions``)."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing
from tidegate.table.data_view import ListView, MapView
from tidegate.table.udf import AggregateFunction

__all__ = ["AggregateFunction", "ListView", "MapView"]

__getattr__ = refusing(
    __name__,
    """
    AvgAggFunction Count1AggFunction CountAggFunction DecimalSum0AggFunction FirstValueAggFunction FirstValueWithRetractAggFunction FloatSum0AggFunction
    IntSum0AggFunction LastValueAggFunction LastValueWithRetractAggFunction ListAggFunction ListAggWithRetractAggFunction ListAggWsWithRetractAggFunction
    MaxAggFunction MaxWithRetractAggFunction MinAggFunction MinWithRetractAggFunction Sum0AggFunction SumAggFunction SumWithRetractAggFunction
    WelfordM2AggFunction
    """,
    "call the aggregate of an expression or of SQL, such as col('a').sum or SUM(a)",
)
