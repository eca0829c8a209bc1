"""The error for a text that is not a value of a type."""

from __future__ import annotations


class Unreadable(Exception):
    """A text cannot be parsed as a value; the message says why."""
