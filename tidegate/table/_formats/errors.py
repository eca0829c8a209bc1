"""What a text that is no value of a type raises."""

from __future__ import annotations


class Unreadable(Exception):
    """A text cannot be read as a value; the text says why."""
