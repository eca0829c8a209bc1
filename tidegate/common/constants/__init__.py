"""The least and the greatest long of Java (PyFlink: ``pyflink.common.constants``)."""

from __future__ import annotations

__all__ = ["DEFAULT_OUTPUT_TAG", "MAX_LONG_VALUE", "MIN_LONG_VALUE"]

MAX_LONG_VALUE = 2**63 - 1
MIN_LONG_VALUE = -(2**63)
DEFAULT_OUTPUT_TAG = ""
"""The tag of an operator's main output."""
