"""`EnvironmentSettings`: execution mode and options of a table environment (PyFlink: ``pyflink.table.environment_settings``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tidegate.common.configuration import Configuration
from tidegate.model.errors import InvalidJob

__all__ = ["EnvironmentSettings"]

MODE = "execution.runtime-mode"
_CATALOG = "table.builtin-catalog-name"
_DATABASE = "table.builtin-database-name"


def is_streaming_mode_of(options: Mapping[str, str], *, default: bool = True) -> bool:
    """Returns whether options ask for streaming mode. Raises ``InvalidJob`` for a mode that tables do not have."""
    mode = options.get(MODE, "").upper()
    if mode not in ("", "STREAMING", "BATCH"):
        raise InvalidJob(
            f"Unsupported mode '{mode}' for '{MODE}'. Only an explicit BATCH or STREAMING mode is supported in Table API."
        )
    return mode == "STREAMING" if mode else default


@dataclass(frozen=True)
class EnvironmentSettings:
    """The settings with which a table environment is created."""

    Builder: ClassVar[type[EnvironmentSettingsBuilder]]

    is_streaming: bool = True
    options: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def new_instance() -> EnvironmentSettingsBuilder:
        """Returns a builder of settings, in streaming mode."""
        return EnvironmentSettingsBuilder(EnvironmentSettings())

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Returns settings of streaming mode."""
        return EnvironmentSettings(is_streaming=True)

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Returns settings of batch mode, for bounded tables: results have no changes."""
        return EnvironmentSettings(is_streaming=False)

    def is_streaming_mode(self) -> bool:
        """Returns whether it is streaming mode."""
        return self.is_streaming

    def get_built_in_catalog_name(self) -> str:
        """Returns the name of the built-in catalog."""
        return self.options.get(_CATALOG, "default_catalog")

    def get_built_in_database_name(self) -> str:
        """Returns the name of the built-in database."""
        return self.options.get(_DATABASE, "default_database")

    def get_configuration(self) -> Configuration:
        """Returns the settings as a configuration, including the execution mode."""
        return Configuration({**self.options, MODE: "STREAMING" if self.is_streaming else "BATCH"})


@dataclass
class EnvironmentSettingsBuilder:
    """Builds ``EnvironmentSettings`` (PyFlink: ``EnvironmentSettings.Builder``)."""

    _settings: EnvironmentSettings = field(default_factory=EnvironmentSettings)

    def in_streaming_mode(self) -> EnvironmentSettingsBuilder:
        """Sets streaming mode."""
        self._settings = replace(self._settings, is_streaming=True)
        return self

    def in_batch_mode(self) -> EnvironmentSettingsBuilder:
        """Sets batch mode."""
        self._settings = replace(self._settings, is_streaming=False)
        return self

    def with_built_in_catalog_name(self, built_in_catalog_name: str) -> EnvironmentSettingsBuilder:
        """Sets the name of the built-in catalog."""
        return self._with({_CATALOG: built_in_catalog_name})

    def with_built_in_database_name(self, built_in_database_name: str) -> EnvironmentSettingsBuilder:
        """Sets the name of the built-in database."""
        return self._with({_DATABASE: built_in_database_name})

    def with_configuration(self, config: Configuration) -> EnvironmentSettingsBuilder:
        """Sets options, including ``execution.runtime-mode``. Raises ``InvalidJob`` for a mode that tables do not have."""
        return self._with(config.to_dict())

    def build(self) -> EnvironmentSettings:
        """Returns the settings."""
        return self._settings

    def _with(self, options: dict[str, str]) -> EnvironmentSettingsBuilder:
        is_streaming = is_streaming_mode_of(options, default=self._settings.is_streaming)
        kept = {key: text for key, text in options.items() if key != MODE}
        self._settings = replace(self._settings, is_streaming=is_streaming, options={**self._settings.options, **kept})
        return self


EnvironmentSettings.Builder = EnvironmentSettingsBuilder
