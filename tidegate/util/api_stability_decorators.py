"""Decorators that mark the stability of a name (PyFlink: ``pyflink.util.api_stability_decorators``). They change nothing else; ``Deprecated`` warns
when the name is used."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., object])

__all__ = ["Deprecated", "Experimental", "Internal", "Public", "PublicEvolving"]


def Deprecated(  # noqa: N802  (PyFlink's name)
    since: str, detail: str | None = None
) -> Callable[[T], T]:
    """Marks a name as deprecated since a version; a call of the function warns."""

    def decorate(func: T) -> T:
        if inspect.isclass(func):
            return func

        @functools.wraps(func)
        def warned(*args: object, **kwargs: object) -> object:
            text = f"{func.__qualname__} is deprecated since {since}" + (f": {detail}" if detail else "")
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return func(*args, **kwargs)

        return warned  # type: ignore[return-value]  # a wrapper has the signature of what it wraps

    return decorate


def _mark(stability: str) -> Callable[..., Any]:
    def decorate(func: Any = None) -> Any:
        """Marks the stability of a class or function, and changes nothing else."""
        if func is None:
            return decorate
        func.__stability__ = stability
        return func

    return decorate


Experimental = _mark("experimental")
Internal = _mark("internal")
Public = _mark("public")
PublicEvolving = _mark("public-evolving")
