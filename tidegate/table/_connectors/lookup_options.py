"""Options of tables that are read by lookup joins (Flink: ``LookupOptions.java``, ``JdbcConnectorOptions.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegate.model.errors import InvalidJob
from tidegate.table._execution.lookup_functions import AsyncLookupFunction, LookupFunction, made_of
from tidegate.table._lookup import partial_cache
from tidegate.table._lookup.partial_cache import CacheLimits
from tidegate.table._lookup.reloads import OPTIONS as FULL
from tidegate.table._lookup.reloads import reloads_of

PYTHON: Final = "python"
"""The name of the connector whose tables are lookup classes of the user."""
ARGUMENTS: Final = "arguments."
CACHE: Final = "lookup.cache"
MAX_RETRIES: Final = "lookup.max-retries"
_OLD_ROWS, _OLD_TTL, _OLD_MISSING = "lookup.cache.max-rows", "lookup.cache.ttl", "lookup.cache.caching-missing-key"
_OLD: Final = {
    _OLD_ROWS: partial_cache.MAX_ROWS,
    _OLD_TTL: partial_cache.AFTER_WRITE,
    _OLD_MISSING: partial_cache.MISSING_KEYS,
}
"""Deprecated options of Flink's JDBC tables, with the options that replaced them."""
PARTIAL: Final = frozenset({CACHE, *partial_cache.OPTIONS})
OPTIONS: Final = frozenset({CACHE, MAX_RETRIES, *partial_cache.OPTIONS, *FULL, *_OLD})
_KINDS: Final = ("NONE", "PARTIAL", "FULL")
_POSTGRES: Final = "jdbc:postgresql://"
_DRIVER: Final = "org.postgresql.Driver"


def cache_of(options: Mapping[str, str]) -> str:
    """Returns the lookup cache of a table: ``NONE``, ``PARTIAL`` or ``FULL``. A table of files always has ``FULL``."""
    if options["connector"] == "filesystem":
        return "FULL"
    return options.get(CACHE, "PARTIAL" if _OLD_ROWS in options and _OLD_TTL in options else "NONE").upper()


def limits_of(options: Mapping[str, str]) -> CacheLimits:
    """Returns the limits of a partial lookup cache. Raises ``InvalidJob`` that names the option."""
    renamed = {new: options[old] for old, new in _OLD.items() if old in options}
    return CacheLimits.of({**renamed, **options})


def function_of(options: Mapping[str, str]) -> LookupFunction | AsyncLookupFunction:
    """Instantiates the lookup class of a user that the options name. Raises ``InvalidJob``."""
    given = {key.removeprefix(ARGUMENTS): text for key, text in options.items() if key.startswith(ARGUMENTS)}
    return made_of(options["class"], given)


def is_asynchronous(options: Mapping[str, str]) -> bool:
    """Returns whether a table is looked up asynchronously, for many keys at once."""
    return options["connector"] == PYTHON and isinstance(function_of(options), AsyncLookupFunction)


def check_lookups(connector: str, options: Mapping[str, str]) -> None:
    """Checks the lookup options of a table. Raises ``InvalidJob`` that names the option."""
    kind = options.get(CACHE, "FULL" if connector == "filesystem" else "NONE").upper()
    if kind not in _KINDS:
        raise InvalidJob(f"Invalid value for option '{CACHE}': '{options[CACHE]}' is not one of {', '.join(_KINDS)}")
    if connector == "filesystem" and kind != "FULL":
        raise InvalidJob(
            f"Invalid value for option '{CACHE}': '{options[CACHE]}': tables of files are read whole, so only FULL is possible"
        )
    kind = cache_of(options)
    for wanted, keys in (("PARTIAL", partial_cache.OPTIONS), ("FULL", FULL)):
        given = sorted(keys & options.keys())
        if given and kind != wanted:
            raise InvalidJob(f"'{given[0]}' needs '{CACHE}' = '{wanted}', but that is {kind}")
    if kind == "PARTIAL":
        limits_of(options)
    if kind == "FULL":
        reloads_of(options)
    retries = options.get(MAX_RETRIES, "3")
    if not retries.isdecimal():
        raise InvalidJob(f"Invalid value for option '{MAX_RETRIES}': '{retries}' is not a whole number from 0")
    if connector == PYTHON:
        if kind == "FULL":
            raise InvalidJob(
                f"Invalid value for option '{CACHE}': a lookup class is asked by key and cannot be read whole: use NONE or PARTIAL"
            )
        function_of(options)
    if connector == "jdbc":
        _check_jdbc(options)


def _check_jdbc(options: Mapping[str, str]) -> None:
    if not options["url"].startswith(_POSTGRES):
        raise InvalidJob(
            f"Could not find any jdbc dialect factory that can handle url '{options['url'].partition('?')[0]}': tables are those of PostgreSQL, "
            f"{_POSTGRES}host:5432/database"
        )
    if options.get("driver", _DRIVER) != _DRIVER:
        raise InvalidJob(
            f"the option 'driver' is '{options['driver']}', and tidegate cannot load Java classes: leave it out"
        )
    if ("username" in options) != ("password" in options) and "password" in options:
        raise InvalidJob("Either all or none of the following options should be provided:\nusername\npassword")


__all__ = [
    "CACHE",
    "FULL",
    "MAX_RETRIES",
    "OPTIONS",
    "PARTIAL",
    "PYTHON",
    "cache_of",
    "check_lookups",
    "function_of",
    "is_asynchronous",
    "limits_of",
]
