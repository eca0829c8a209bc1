"""Errors of compiled plans."""

from __future__ import annotations

from tidegate.model.errors import InvalidJob


class MalformedPlan(InvalidJob):
    """The bytes are not a plan that can be read. The message names the node and the field."""


class UnsupportedPlan(InvalidJob):
    """A plan that can be read and not be run. The message names each node, with its id, and each function."""
