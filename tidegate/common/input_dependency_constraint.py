"""`InputDependencyConstraint`: when a vertex of a batch job may be scheduled (PyFlink: in the same module). Without effect here, where all vertices of
a job run at the same time."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """Whether any or all inputs must be ready before a vertex of a batch job is scheduled (PyFlink: ``InputDependencyConstraint``)."""

    ANY = 0
    ALL = 1
