"""Placeholders for PyFlink's names of Java classes: using one raises an error that says what to use instead.

Importing such a name works, so that a module or a test that names it among others loads; using it is refused:

    from tidegate.datastream.connectors.pulsar import PulsarSource
    PulsarSource.builder()    ─▶  TypeError: ...PulsarSource stands for a Java class of Flink ...; use KafkaSource ...
    PulsarSource()            ─▶  the same;  class Mine(PulsarSource), too
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NoReturn

from tidegate.common.names.finding import ModuleMember, Names, finding

__all__ = ["java_only", "refusing"]


class _JavaOnly(type):
    """The metaclass of the placeholders: every use of one raises an error."""

    _refusal: str

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> _JavaOnly:
        if bases:
            raise TypeError(next(base._refusal for base in bases if isinstance(base, _JavaOnly)))
        return super().__new__(cls, name, bases, namespace)

    def __call__(cls, *_: object, **__: object) -> NoReturn:
        raise TypeError(cls._refusal)

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):  # what copy, inspect and pytest ask of every object
            raise AttributeError(name)
        raise TypeError(cls._refusal)


def java_only(module: str, names: str, instead: str) -> Names:
    """Returns the table of placeholders for the ``names`` (separated by blanks) that PyFlink has in ``module``."""
    return {name: partial(_placeholder, module, name, instead) for name in names.split()}


def refusing(module: str, names: str, instead: str) -> Callable[[str], ModuleMember]:
    """Returns the ``__getattr__`` of a module that only has placeholders besides its own names."""
    return finding(module, java_only(module, names, instead))


@cache
def _placeholder(module: str, name: str, instead: str) -> _JavaOnly:
    refusal = f"{module}.{name} stands for a Java class of Flink, which tidegate does not run; {instead}"
    doc = f"Stands for a Java class of Flink, which tidegate does not run: using it raises ``TypeError``; {instead}."
    return _JavaOnly(name, (), {"__module__": module, "__doc__": doc, "_refusal": refusal})
