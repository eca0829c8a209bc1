"""Retry predicates of async functions (PyFlink: ``pyflink.datastream.async_retry_predicates``)."""

from __future__ import annotations

from tidegate.model.values import Record

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: list[Record] | None) -> bool:
    """Returns whether the results are empty, to retry such calls."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Returns whether there was any exception, to retry such calls."""
    return error is not None


def exception_type_predicate(error: Exception | None, expected_error_type: type[BaseException]) -> bool:
    """Returns whether an exception is of a type, to retry such calls."""
    return isinstance(error, expected_error_type)
