"""`ExecutionConfig`: a view of the environment's options (PyFlink: ``pyflink.common.execution_config``)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.common.configuration import Configuration
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms

__all__ = ["ExecutionConfig"]

PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"
AUTO_WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
GLOBAL_JOB_PARAMETERS = "pipeline.global-job-parameters"

_DEFAULT_AUTO_WATERMARK_INTERVAL = "200 ms"


class ExecutionConfig:
    """Reads and writes the configuration that it was given; setters return the view itself."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def get_parallelism(self) -> int:
        return self._configuration.get_integer(PARALLELISM, 1)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        self._configuration.set_integer(PARALLELISM, check_parallelism(parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """-1 when it is not set."""
        return self._configuration.get_integer(MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        self._configuration.set_integer(MAX_PARALLELISM, check_max_parallelism(max_parallelism))
        return self

    def get_auto_watermark_interval(self) -> int:
        """Milliseconds."""
        return parse_duration_ms(
            self._configuration.get_string(AUTO_WATERMARK_INTERVAL, _DEFAULT_AUTO_WATERMARK_INTERVAL)
        )

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Milliseconds; 0 turns periodic watermarks off."""
        self._configuration.set_string(AUTO_WATERMARK_INTERVAL, f"{interval} ms")
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        text = self._configuration.get_string(GLOBAL_JOB_PARAMETERS, "")
        return dict(pair.split(":", 1) for pair in _split_unquoted(text) if ":" in pair)

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, object]) -> ExecutionConfig:
        """Read in functions by ``runtime_context.get_job_parameter(key, default)``."""
        pairs = [f"{key}:{value}" for key, value in global_job_parameters_dict.items()]
        quoted = ["'" + pair.replace("'", "''") + "'" if "," in pair or "'" in pair else pair for pair in pairs]
        self._configuration.set_string(GLOBAL_JOB_PARAMETERS, ",".join(quoted))
        return self


def check_parallelism(parallelism: int) -> int:
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or not 1 <= parallelism <= 32768:
        raise InvalidJob(f"the parallelism must be a whole number from 1 to 32768, not {parallelism!r}")
    return parallelism


def check_max_parallelism(max_parallelism: int) -> int:
    if isinstance(max_parallelism, bool) or not isinstance(max_parallelism, int) or not 1 <= max_parallelism <= 32768:
        raise InvalidJob(f"the maximum parallelism must be a whole number from 1 to 32768, not {max_parallelism!r}")
    return max_parallelism


def _split_unquoted(text: str) -> list[str]:
    """Parts between commas; a part in single quotes may hold commas, and ``''`` for a quote (Flink's map options)."""
    parts = re.findall(r"'(?:[^']|'')*'|[^,]+", text)
    return [part[1:-1].replace("''", "'") if part.startswith("'") else part.strip() for part in parts]
