"""What stands where a key would be while there is none."""

from __future__ import annotations

from typing import NoReturn

from tidegate.model.errors import InvalidJob


class NoCurrentKey:
    """Reading or writing keyed state raises an error that says ``why`` there is no key."""

    def __init__(self, operator: str, why: str) -> None:
        self._operator = operator
        self._why = why

    def __hash__(self) -> NoReturn:
        raise InvalidJob(f"operator '{self._operator}': {self._why}")

    def __reduce__(self) -> NoReturn:
        hash(self)
        raise AssertionError
