"""`ExplainDetail`: details that ``explain`` can add to the plans (PyFlink: ``pyflink.table.explain_detail``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExplainDetail"]


class ExplainDetail(Enum):
    """Details of an explanation: costs, changelog modes, the job's plan as JSON, and advice."""

    ESTIMATED_COST = 0
    CHANGELOG_MODE = 1
    JSON_EXECUTION_PLAN = 2
    PLAN_ADVICE = 3
