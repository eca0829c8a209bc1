"""`Configuration`: the options that a program sets for its job (PyFlink: ``pyflink.common.configuration``).

A mutable map of texts by Flink's keys. It is checked as a whole when the job is executed (``tidegate.model.configuration``),
so that all problems are reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidegate.model.errors import ConfigurationError
from tidegate.model.whole_numbers import whole_number

__all__ = ["Configuration"]

_TRUE, _FALSE = "true", "false"


class _OfJava(Protocol):
    configuration: Configuration


class Configuration:
    """A mapping from option keys to texts, with typed access (PyFlink: ``Configuration``). Setters return the
    configuration itself; getters raise ``ConfigurationError`` for a text that does not mean a value of their type."""

    def __init__(
        self, other: Configuration | Mapping[str, str] | None = None, j_configuration: _OfJava | None = None
    ) -> None:
        """Creates a configuration, with a copy of ``other``. ``j_configuration``: a configuration from ``java_utils.get_j_env_configuration``, in place
        of ``other``."""
        self._texts: dict[str, str] = {}
        self._typed: dict[str, int | float | bool | bytearray] = {}
        """What was not set as a text, for ``add_all_to_dict`` and ``get_bytearray``."""
        if other is None and j_configuration is not None:
            other = j_configuration.configuration
        if isinstance(other, Configuration):
            self.add_all(other)
        elif other is not None:
            self._texts.update(other)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        """Creates a configuration from keys and texts as in config.yaml."""
        return cls(map)

    def get_string(self, key: str, default_value: str) -> str:
        """Returns the text of an option, or the default."""
        return self._texts.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Sets an option to a text."""
        if not isinstance(value, str):
            raise ConfigurationError(f"{key}: set_string needs a str, not {type(value).__name__} {value!r}")
        self._texts[key] = value
        self._typed.pop(key, None)
        return self

    def get_integer(self, key: str, default_value: int) -> int:
        """Returns an option as a whole number, or the default."""
        text = self._texts.get(key)
        try:
            return default_value if text is None else int(text)
        except ValueError:
            raise ConfigurationError(f"{key}: {text!r} is not a whole number") from None

    def set_integer(self, key: str, value: int) -> Configuration:
        """Sets an option to a whole number."""
        number = whole_number(value, f"option '{key}'")
        return self._set_typed(key, str(number), number)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Returns an option as a boolean, or the default."""
        text = self._texts.get(key)
        if text is not None and text.lower() not in (_TRUE, _FALSE):
            raise ConfigurationError(f"{key}: {text!r} is neither true nor false")
        return default_value if text is None else text.lower() == _TRUE

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Sets an option to a boolean."""
        return self._set_typed(key, _TRUE if value else _FALSE, bool(value))

    def get_float(self, key: str, default_value: float) -> float:
        """Returns an option as a floating point number, or the default."""
        text = self._texts.get(key)
        try:
            return default_value if text is None else float(text)
        except ValueError:
            raise ConfigurationError(f"{key}: {text!r} is not a number") from None

    def set_float(self, key: str, value: float) -> Configuration:
        """Sets an option to a floating point number."""
        return self._set_typed(key, str(float(value)), float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Returns an option as bytes, or the default; a text is parsed as hexadecimal digits."""
        found = self._typed.get(key)
        if found is None and key in self._texts:
            try:
                return bytearray.fromhex(self._texts[key])
            except ValueError:
                raise ConfigurationError(f"{key}: {self._texts[key]!r} is not a string of hexadecimal digits") from None
        return bytearray(found) if isinstance(found, bytearray) else default_value

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Sets an option to bytes; its text is their hexadecimal digits."""
        return self._set_typed(key, value.hex(), bytearray(value))

    def key_set(self) -> set[str]:
        """Returns the keys of all options that are set."""
        return set(self._texts)

    def contains_key(self, key: str) -> bool:
        """Tells whether an option is set."""
        return key in self._texts

    def remove_config(self, key: str) -> bool:
        """Removes an option; returns whether it was set."""
        self._typed.pop(key, None)
        return self._texts.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Sets all options of ``other``, with ``prefix`` before their keys."""
        for key, text in other._texts.items():
            self.set_string((prefix or "") + key, text)
        self._typed.update({(prefix or "") + key: value for key, value in other._typed.items()})
        return self

    def add_all_to_dict(self, target_dict: dict[str, object]) -> None:
        """Adds all options to a dict, with their values as they were set: numbers as numbers."""
        target_dict.update(self._texts)
        target_dict.update(self._typed)

    def to_dict(self) -> dict[str, str]:
        """Returns all options as a new dict of texts."""
        return dict(self._texts)

    @staticmethod
    def parse_list_value(value: str | None, standard_yaml: bool = True) -> list[str]:
        """Parses a list option: ``a;b`` or, with ``standard_yaml``, a YAML list."""
        if not value:
            return []
        import yaml  # a tenth of what a program's first import takes, and hardly one has such a list

        parsed = yaml.safe_load(value) if standard_yaml and value.lstrip().startswith(("[", "-")) else value
        return [str(part) for part in parsed] if isinstance(parsed, list) else value.split(";")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._texts == other._texts

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._texts.items())))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={text}" for key, text in self._texts.items()) + "}"

    __repr__ = __str__

    def _set_typed(self, key: str, text: str, value: int | float | bool | bytearray) -> Configuration:
        self._texts[key] = text
        self._typed[key] = value
        return self
