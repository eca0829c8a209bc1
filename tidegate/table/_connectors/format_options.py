"""Resolution of the format of a table, or of its keys and values, and the options of that format without their prefix."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.model.errors import InvalidJob


def format_of(table: str, options: Mapping[str, str]) -> tuple[str, str]:
    """Returns the name of a table's value format and the prefix of its options: ``value.`` or nothing. Raises ``InvalidJob`` without one."""
    for prefix in ("", "value."):
        if f"{prefix}format" in options:
            return options[f"{prefix}format"], prefix
    raise InvalidJob(f"the table {table} has no option 'format': say WITH (..., 'format' = 'json')")


def format_options(table: str, options: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Returns the name of the value format and its options."""
    name, prefix = format_of(table, options)
    return name, without_prefix(prefix, options)


def key_format_options(options: Mapping[str, str]) -> tuple[str, Mapping[str, str]] | None:
    """Returns the name of the key format and its options; ``None`` where keys are not read."""
    return (options["key.format"], without_prefix("key.", options)) if "key.format" in options else None


def without_prefix(prefix: str, options: Mapping[str, str]) -> Mapping[str, str]:
    """Removes a prefix from the option keys that have it; options without it stay as they are."""
    if not prefix:
        return options
    return {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
