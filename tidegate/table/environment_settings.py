"""`EnvironmentSettings`: streaming or batch, and options (PyFlink: ``pyflink.table.environment_settings``)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidegate.common.configuration import Configuration

__all__ = ["EnvironmentSettings"]


@dataclass(frozen=True)
class EnvironmentSettings:
    """What a table environment is created with."""

    is_streaming: bool = True
    options: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def new_instance() -> EnvironmentSettingsBuilder:
        """Starts settings of streaming mode."""
        return EnvironmentSettingsBuilder(EnvironmentSettings())

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Settings of streaming mode."""
        return EnvironmentSettings(is_streaming=True)

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Settings of batch mode, for tables that end: results are rows without changes."""
        return EnvironmentSettings(is_streaming=False)

    def is_streaming_mode(self) -> bool:
        """Whether it is streaming mode."""
        return self.is_streaming

    def get_configuration(self) -> Configuration:
        """Returns the options."""
        return Configuration(dict(self.options))


@dataclass
class EnvironmentSettingsBuilder:
    """Collects settings, then ``build`` (PyFlink: ``EnvironmentSettings.Builder``)."""

    _settings: EnvironmentSettings

    def in_streaming_mode(self) -> EnvironmentSettingsBuilder:
        """Sets streaming mode."""
        self._settings = replace(self._settings, is_streaming=True)
        return self

    def in_batch_mode(self) -> EnvironmentSettingsBuilder:
        """Sets batch mode."""
        self._settings = replace(self._settings, is_streaming=False)
        return self

    def with_configuration(self, config: Configuration) -> EnvironmentSettingsBuilder:
        """Sets options."""
        self._settings = replace(self._settings, options={**self._settings.options, **config.to_dict()})
        return self

    def build(self) -> EnvironmentSettings:
        """Returns the settings."""
        return self._settings
