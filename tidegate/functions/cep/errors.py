"""Errors of invalid patterns."""

from __future__ import annotations

from tidegate.model.errors import InvalidJob


class MalformedPatternException(InvalidJob):
    """A pattern is invalid (Flink: ``MalformedPatternException``)."""


__all__ = ["MalformedPatternException"]
