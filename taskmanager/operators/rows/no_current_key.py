"""Stands for the current key while there is none."""

from __future__ import annotations

from typing import NoReturn

from tidegate.model.errors import InvalidJob


class NoCurrentKey:
    """A key with which reading or writing keyed state raises ``InvalidJob``. ``why``: the reason in the message."""

    def __init__(self, operator: str, why: str) -> None:
        self._operator = operator
        self._why = why

    def __hash__(self) -> NoReturn:
        raise InvalidJob(f"operator '{self._operator}': {self._why}")

    def __reduce__(self) -> NoReturn:
        hash(self)
        raise AssertionError
