"""`ExplainDetail`: what an explanation has beside the plans (PyFlink: ``pyflink.table.explain_detail``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExplainDetail"]


class ExplainDetail(Enum):
    """Costs, kinds of changes, the plan of the job as JSON, and advice."""

    ESTIMATED_COST = 0
    CHANGELOG_MODE = 1
    JSON_EXECUTION_PLAN = 2
    PLAN_ADVICE = 3
