"""Names of PyFlink that stand for Java classes: a program that uses one is told what to use here instead.

Importing such a name works, so that a module or a test that names it among others loads; using it is refused:

    from tidegate.datastream.connectors.pulsar import PulsarSource
    PulsarSource.builder()    ─▶  TypeError: ...PulsarSource stands for a Java class of Flink ...; use KafkaSource ...
    PulsarSource()            ─▶  the same;  class Mine(PulsarSource), too
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["refusing"]


class _JavaOnly(type):
    """The class of the placeholders: whatever is done with one but naming it raises its refusal."""

    _refusal: str

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _JavaOnly:
        if bases:
            raise TypeError(next(base._refusal for base in bases if isinstance(base, _JavaOnly)))
        return super().__new__(cls, name, bases, namespace)

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise TypeError(cls._refusal)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # what copy, inspect and pytest ask of every object
            raise AttributeError(name)
        raise TypeError(cls._refusal)


def refusing(module: str, names: str, instead: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of such a module. ``names``: those that PyFlink has there, between blanks."""
    placeholders = {
        name: _JavaOnly(
            name,
            (),
            {
                "__module__": module,
                "_refusal": f"{module}.{name} stands for a Java class of Flink, which tidegate does not run; {instead}",
            },
        )
        for name in names.split()
    }

    def missing(name: str) -> Any:
        if name in placeholders:
            return placeholders[name]
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing
