"""Every public name says what it is: in its own docstring or, for a method, in that of the method that it overrides."""

from __future__ import annotations

import inspect
from typing import Any

from tests.architecture.public_api import public_api


def test_every_public_name_has_a_docstring() -> None:
    api = public_api()
    assert len(api) > 2000
    assert sorted(name for name, value in api.items() if not _doc(api, name, value)) == []


def _doc(api: dict[str, Any], name: str, value: Any) -> str | None:
    if inspect.isclass(value):
        generated = f"{value.__name__}("  # what a dataclass without a docstring has
        own = value.__dict__.get("__doc__") or ""
        return None if own.startswith(generated) else own
    owner, _, attribute = name.rpartition(".")
    if owner not in api:  # a function of a module
        return inspect.getdoc(value)
    return next((doc for base in api[owner].__mro__ if (doc := _own(base, attribute))), None)


def _own(base: type, attribute: str) -> str | None:
    found = base.__dict__.get(attribute)
    return getattr(getattr(found, "__func__", found), "__doc__", None)
