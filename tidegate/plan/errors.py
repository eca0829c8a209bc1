"""Errors of compiled plans."""

from __future__ import annotations

from tidegate.model.errors import InvalidJob


class MalformedPlan(InvalidJob):
    """The error of bytes that are not a readable plan. The message names the node and the field."""


class UnsupportedPlan(InvalidJob):
    """The error of a readable plan that cannot be run. The message names each unsupported node, with its id, and each function."""
