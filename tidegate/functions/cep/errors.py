"""What is raised for patterns that cannot be."""

from __future__ import annotations

from tidegate.model.errors import InvalidJob


class MalformedPatternException(InvalidJob):
    """A pattern is not one that can be matched (Flink: ``MalformedPatternException``)."""


__all__ = ["MalformedPatternException"]
