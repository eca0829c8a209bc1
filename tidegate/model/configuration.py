"""`Configuration`: the checked options of a process or a job, as an immutable value.

Texts come in layers (defaults < config.yaml < environment < `-D`); a later layer wins over an earlier one, whatever name
each used: old names are translated within their layer, and the current name wins over an old one beside it. Everything that
is wrong is reported at once, each problem with the place that it came from.

    configuration = Configuration.from_strings({"execution.checkpointing.interval": "10 s"})
    configuration.get(CheckpointingOptions.INTERVAL)    # 10000
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from tidegate.model.errors import ConfigurationError
from tidegate.model.masking import HIDDEN, is_sensitive
from tidegate.model.options import ConfigOption, Kind, declared
from tidegate.model.options.checks import cross_checks
from tidegate.model.options.flink_keys import FLINK_KEYS, FLINK_PREFIXES, OLD_KEYS
from tidegate.model.options.option import DeclaredOption

T = TypeVar("T")

SPARK_PREFIX = "spark."
EFFECTIVE_PREFIXES = (SPARK_PREFIX, "external-resource.")
"""Prefixes of keys that have an effect without being declared one by one."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The text of an option. `source`: where it was set (`config.yaml line 3`, `-D`); `written`: the key as written."""

    text: str
    source: str = ""
    written: str = ""


Layer = Mapping[str, Setting]


class Configuration:
    """Checked settings. Immutable; equal when every key has the same text; picklable."""

    __slots__ = ("_settings", "_values")

    def __init__(self, settings: Layer | None = None, also: Sequence[str] = ()) -> None:
        """Creates a configuration of settings by current key (see `from_layers` for texts as users write them).

        `also` are problems found before, to be reported with the others. Raises `ConfigurationError` that lists every problem.
        """
        self._settings: dict[str, Setting] = dict(settings or {})
        self._values: dict[str, Any] = {}
        unreadable = self._read_values()
        problems = [*also, *self._unknown_keys(), *unreadable.values(), *cross_checks(self, frozenset(unreadable))]
        if problems:
            raise ConfigurationError(_listing(problems))

    @staticmethod
    def from_strings(texts: Mapping[str, str], source: str = "") -> Configuration:
        """Creates a configuration of one layer. Raises `ConfigurationError` that lists every problem."""
        return Configuration.from_layers([{key: Setting(text, source) for key, text in texts.items()}])

    @staticmethod
    def from_layers(layers: Sequence[Layer], also: Sequence[str] = ()) -> Configuration:
        """Creates a configuration of several layers, the strongest last; `also` are problems found while reading them.

        Raises `ConfigurationError` that lists every problem.
        """
        settings: dict[str, Setting] = {}
        for layer in layers:
            settings.update(_with_current_names(layer))
        return Configuration(settings, also)

    def get(self, option: ConfigOption[T]) -> T:
        """Returns the value of an option: as set, as set under an old name, or its default."""
        return self._values.get(option.key, option.default)  # type: ignore[no-any-return]

    def is_set(self, option: DeclaredOption) -> bool:
        """Returns whether the option was set."""
        return option.key in self._values

    def source_of(self, option: DeclaredOption) -> str:
        """Returns where the option was set, such as `config.yaml line 3`; empty if it was not, or its place is unknown."""
        found = self._setting_of(option)
        return found.source if found else ""

    def merged(self, other: Configuration) -> Configuration:
        """Returns the configuration with everything that `other` sets on top. Raises `ConfigurationError` when the two
        contradict."""
        return Configuration({**self._settings, **other._settings})

    def only(self, keeps: Callable[[str], bool]) -> Configuration:
        """Returns a configuration of the settings whose keys `keeps` selects. Raises `ConfigurationError` when a selected option requires an option that is
        left out.
        """
        return Configuration({key: setting for key, setting in self._settings.items() if keeps(key)})

    def to_strings(self) -> dict[str, str]:
        """Returns the texts of all set options by key, as in a job graph. `from_strings` is its inverse."""
        return {key: setting.text for key, setting in sorted(self._settings.items())}

    def spark_properties(self) -> dict[str, str]:
        """Returns the `spark.*` keys that were set, for the Spark session."""
        return {key: text for key, text in self.to_strings().items() if key.startswith(SPARK_PREFIX)}

    def warnings(self) -> tuple[str, ...]:
        """Returns warnings to log once at start: keys of Flink without effect here, and old names."""
        idle, old = [], []
        for key, setting in sorted(self._settings.items()):
            if not (key.startswith(EFFECTIVE_PREFIXES) or key in _effective_keys()):
                idle.append(_placed(setting.written or key, setting.source))
            elif setting.written and setting.written != key:
                old.append(f"{_placed(setting.written, setting.source)} is the old name of {key}")
        if idle:
            old.insert(0, f"known to Flink, without effect here: {', '.join(idle)}")
        return tuple(old)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._settings))

    def __len__(self) -> int:
        return len(self._settings)

    def __contains__(self, key: object) -> bool:
        return key in self._settings

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_strings() == other.to_strings()

    def __hash__(self) -> int:
        return hash(tuple(self.to_strings().items()))

    def __repr__(self) -> str:
        shown = {key: HIDDEN if is_sensitive(key) else text for key, text in self.to_strings().items()}
        return f"Configuration({shown!r})"

    def _setting_of(self, option: DeclaredOption) -> Setting | None:
        for key in (option.key, *option.fallback_keys):
            if key in self._settings:
                return self._settings[key]
        return None

    def _unknown_keys(self) -> list[str]:
        return [
            _at(setting.source, f"unknown option {setting.written or key!r}{_nearest(setting.written or key)}")
            for key, setting in self._settings.items()
            if not is_known(key)
        ]

    def _read_values(self) -> dict[str, str]:
        problems = {}
        for option in declared().values():
            setting = self._setting_of(option)
            if setting is None:
                continue
            try:
                self._values[option.key] = option.parse(setting.text)
            except ValueError as error:
                problems[option.key] = _at(setting.source, f"{setting.written or option.key}: {error}")
        return problems


def is_known(key: str) -> bool:
    """Returns whether a key is an option here, Flink's (current or old), or Spark's."""
    return key in declared() or key in FLINK_KEYS or key in OLD_KEYS or key.startswith((SPARK_PREFIX, *FLINK_PREFIXES))


def all_keys() -> tuple[str, ...]:
    """Returns every exact key that is accepted: tidegate's, then Flink's, then deprecated names."""
    return tuple(dict.fromkeys((*declared(), *sorted(FLINK_KEYS), *sorted(_current_names()))))


@cache
def _effective_keys() -> frozenset[str]:
    effective = [option for option in declared().values() if option.kind is Kind.EFFECTIVE]
    return frozenset(key for option in effective for key in (option.key, *option.fallback_keys))


@cache
def _current_names() -> dict[str, tuple[str, ...]]:
    """Returns the options that read each old name. Names that are options themselves are resolved by `get` instead."""
    found: dict[str, tuple[str, ...]] = {old: (current,) for old, current in OLD_KEYS.items()}
    for option in declared().values():
        for old in option.fallback_keys:
            if old not in FLINK_KEYS and old not in declared():
                found[old] = tuple(dict.fromkeys((*found.get(old, ()), option.key)))
    return found


def _with_current_names(layer: Layer) -> dict[str, Setting]:
    found = {key: setting for key, setting in layer.items() if key not in _current_names()}
    for key, setting in layer.items():
        for current in _current_names().get(key, ()):
            found.setdefault(current, Setting(setting.text, setting.source, key))
    return found


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key, all_keys(), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def _placed(key: str, source: str) -> str:
    return f"{key} ({source})" if source else key


def _at(source: str, problem: str) -> str:
    return f"{source}: {problem}" if source else problem


def _listing(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return f"bad configuration: {problems[0]}"
    return "\n  ".join([f"bad configuration, {len(problems)} problems:", *problems])
