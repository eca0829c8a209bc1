"""`ConfigOptions`: declares options of a program (PyFlink: ``pyflink.common.config_options``).

BATCH = ConfigOptions.key("my.batch").int_type().default_value(10)
configuration.get(BATCH)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

__all__ = ["ConfigOption", "ConfigOptions"]


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A typed configuration option with a default. ``parse``: converts the text of a value."""

    key: str
    default_value: T
    parse: Callable[[str], object]


@dataclass(frozen=True)
class TypedConfigOptionBuilder(Generic[T]):
    """Builds an option with key and type; ``default_value`` or ``no_default_value`` completes it."""

    key: str
    parse: Callable[[str], T]

    def default_value(self, value: T) -> ConfigOption[T]:
        """Returns the option with a default."""
        return ConfigOption(self.key, value, self.parse)

    def no_default_value(self) -> ConfigOption[T | None]:
        """Returns the option without a default: ``None`` when it is not set."""
        return ConfigOption(self.key, None, self.parse)


@dataclass(frozen=True)
class OptionBuilder:
    """Builds an option with a key; the next call sets its type."""

    key: str

    def boolean_type(self) -> TypedConfigOptionBuilder[bool]:
        """Declares a boolean option."""
        return TypedConfigOptionBuilder(self.key, lambda text: text.lower() == "true")

    def int_type(self) -> TypedConfigOptionBuilder[int]:
        """Declares an option with a whole number."""
        return TypedConfigOptionBuilder(self.key, int)

    def long_type(self) -> TypedConfigOptionBuilder[int]:
        """Declares an option with a whole number."""
        return TypedConfigOptionBuilder(self.key, int)

    def float_type(self) -> TypedConfigOptionBuilder[float]:
        """Declares an option with a floating point number."""
        return TypedConfigOptionBuilder(self.key, float)

    def double_type(self) -> TypedConfigOptionBuilder[float]:
        """Declares an option with a floating point number."""
        return TypedConfigOptionBuilder(self.key, float)

    def string_type(self) -> TypedConfigOptionBuilder[str]:
        """Declares an option with text."""
        return TypedConfigOptionBuilder(self.key, str)


_Builder = OptionBuilder


class ConfigOptions:
    """Declares options: ``ConfigOptions.key("x").int_type().default_value(1)`` (PyFlink: ``ConfigOptions``)."""

    OptionBuilder = OptionBuilder
    TypedConfigOptionBuilder = TypedConfigOptionBuilder

    @staticmethod
    def key(key: str) -> _Builder:
        """Starts the declaration of one option."""
        return OptionBuilder(key)
