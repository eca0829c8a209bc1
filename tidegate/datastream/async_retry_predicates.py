"""Predicates for retries of async functions (PyFlink: ``pyflink.datastream.async_retry_predicates``)."""

from __future__ import annotations

from tidegate.model.values import Record

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: list[Record] | None) -> bool:
    """No results are worth another attempt."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Any exception is worth another attempt."""
    return error is not None


def exception_type_predicate(error: Exception | None, expected_error_type: type[BaseException]) -> bool:
    """Exceptions of one type are worth another attempt."""
    return isinstance(error, expected_error_type)
