"""`ExecutionConfig`: the execution options of an environment (PyFlink: ``pyflink.common.execution_config``)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.common.configuration import Configuration
from tidegate.common.names.finding import finding
from tidegate.common.names.flink_1 import flink_1
from tidegate.model.errors import InvalidJob
from tidegate.model.units import parse_duration_ms
from tidegate.model.whole_numbers import whole_number

__all__ = ["ExecutionConfig"]

PARALLELISM = "parallelism.default"
MAX_PARALLELISM = "pipeline.max-parallelism"
AUTO_WATERMARK_INTERVAL = "pipeline.auto-watermark-interval"
GLOBAL_JOB_PARAMETERS = "pipeline.global-job-parameters"

_DEFAULT_AUTO_WATERMARK_INTERVAL = "200 ms"
_CANCELLATION_INTERVAL = "task.cancellation.interval"
_CANCELLATION_TIMEOUT = "task.cancellation.timeout"
_CLOSURE_CLEANER = "pipeline.closure-cleaner-level"
_GENERIC_TYPES = "pipeline.generic-types"
_AUTO_UIDS = "pipeline.auto-generate-uids"
_FORCE_KRYO = "pipeline.force-kryo"
_FORCE_AVRO = "pipeline.force-avro"
_OBJECT_REUSE = "pipeline.object-reuse"
_SNAPSHOT_COMPRESSION = "execution.checkpointing.snapshot-compression"
_LATENCY_INTERVAL = "metrics.latency.interval"


class ExecutionConfig:
    """The execution options of an environment, as a view (PyFlink: ``ExecutionConfig``). Setters return the view itself. Options without effect here,
    such as Java's serialization, are kept, and the job logs one warning that names them."""

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def get_parallelism(self) -> int:
        """Returns the parallelism of operators without one of their own; 1 when it is not set."""
        return self._configuration.get_integer(PARALLELISM, 1)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Sets the parallelism of operators without one of their own, from 1 to 32768."""
        self._configuration.set_integer(PARALLELISM, check_parallelism(parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """Returns the number of key groups; -1 when it is not set."""
        return self._configuration.get_integer(MAX_PARALLELISM, -1)

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Sets the number of key groups, from 1 to 32768."""
        self._configuration.set_integer(MAX_PARALLELISM, check_max_parallelism(max_parallelism))
        return self

    def get_auto_watermark_interval(self) -> int:
        """Returns the interval of periodic watermarks in milliseconds."""
        return parse_duration_ms(
            self._configuration.get_string(AUTO_WATERMARK_INTERVAL, _DEFAULT_AUTO_WATERMARK_INTERVAL)
        )

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Sets the interval of periodic watermarks in milliseconds; 0 disables them."""
        interval = whole_number(interval, f"option '{AUTO_WATERMARK_INTERVAL}' in ms")
        self._configuration.set_string(AUTO_WATERMARK_INTERVAL, f"{interval} ms")
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Returns the parameters that every function can read with ``RuntimeContext.get_job_parameter``."""
        text = self._configuration.get_string(GLOBAL_JOB_PARAMETERS, "")
        return dict(pair.split(":", 1) for pair in _split_unquoted(text) if ":" in pair)

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, object]) -> ExecutionConfig:
        """Sets the parameters that every function can read with ``runtime_context.get_job_parameter(key, default)``."""
        pairs = [f"{key}:{value}" for key, value in global_job_parameters_dict.items()]
        quoted = ["'" + pair.replace("'", "''") + "'" if "," in pair or "'" in pair else pair for pair in pairs]
        self._configuration.set_string(GLOBAL_JOB_PARAMETERS, ",".join(quoted))
        return self

    # --- when a task is cancelled -----------------------------------------------------------------

    def get_task_cancellation_interval(self) -> int:
        """Returns the interval between interrupts of a task that is being cancelled, in milliseconds."""
        return self._ms(_CANCELLATION_INTERVAL, "30 s")

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Sets the interval between interrupts of a task that is being cancelled, in milliseconds."""
        return self._set(_CANCELLATION_INTERVAL, f"{interval} ms")

    def get_task_cancellation_timeout(self) -> int:
        """Returns after how many milliseconds a task that ignores its cancellation ends with its process; 0: never."""
        return self._ms(_CANCELLATION_TIMEOUT, "180 s")

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Sets after how many milliseconds a task that ignores its cancellation ends with its process; 0: never."""
        return self._set(_CANCELLATION_TIMEOUT, f"{timeout} ms")

    # --- Flink's switches that are about the JVM --------------------------------------------------

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Enables Flink's cleaner of Java closures. It has no effect here."""
        return self._set(_CLOSURE_CLEANER, "RECURSIVE")

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Disables Flink's cleaner of Java closures. It has no effect here."""
        return self._set(_CLOSURE_CLEANER, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """Tells whether the cleaner of Java closures is enabled."""
        return self._configuration.get_string(_CLOSURE_CLEANER, "RECURSIVE").upper() != "NONE"

    def enable_generic_types(self) -> ExecutionConfig:
        """Allows types that Flink serializes with Kryo. It has no effect here."""
        return self._set(_GENERIC_TYPES, "true")

    def disable_generic_types(self) -> ExecutionConfig:
        """Refuses types that Flink serializes with Kryo. It has no effect here."""
        return self._set(_GENERIC_TYPES, "false")

    def has_generic_types_disabled(self) -> bool:
        """Tells whether types that Flink serializes with Kryo are refused."""
        return not self._configuration.get_boolean(_GENERIC_TYPES, True)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Enables Flink's option that allows operators without a uid. It has no effect here: they are always allowed."""
        return self._set(_AUTO_UIDS, "true")

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Disables Flink's option that allows operators without a uid. It has no effect here."""
        return self._set(_AUTO_UIDS, "false")

    def has_auto_generated_uids_enabled(self) -> bool:
        """Tells whether Flink's option allows operators without a uid."""
        return self._configuration.get_boolean(_AUTO_UIDS, True)

    def enable_force_kryo(self) -> ExecutionConfig:
        """Enables Flink's option to serialize with Kryo. It has no effect here."""
        return self._set(_FORCE_KRYO, "true")

    def disable_force_kryo(self) -> ExecutionConfig:
        """Disables Flink's option to serialize with Kryo. It has no effect here."""
        return self._set(_FORCE_KRYO, "false")

    def is_force_kryo_enabled(self) -> bool:
        """Tells whether Flink's option to serialize with Kryo is enabled."""
        return self._configuration.get_boolean(_FORCE_KRYO, False)

    def enable_force_avro(self) -> ExecutionConfig:
        """Enables Flink's option to serialize with Avro. It has no effect here."""
        return self._set(_FORCE_AVRO, "true")

    def disable_force_avro(self) -> ExecutionConfig:
        """Disables Flink's option to serialize with Avro. It has no effect here."""
        return self._set(_FORCE_AVRO, "false")

    def is_force_avro_enabled(self) -> bool:
        """Tells whether Flink's option to serialize with Avro is enabled."""
        return self._configuration.get_boolean(_FORCE_AVRO, False)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Passes records to the next function, and to all consumers of a stream, without a copy: changes by one function are visible to the others."""
        return self._set(_OBJECT_REUSE, "true")

    def disable_object_reuse(self) -> ExecutionConfig:
        """Copies records between functions where one could change an object that another one holds; this is the default."""
        return self._set(_OBJECT_REUSE, "false")

    def is_object_reuse_enabled(self) -> bool:
        """Tells whether functions get records without a copy."""
        return self._configuration.get_boolean(_OBJECT_REUSE, False)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Returns an empty dict: there is no JVM with serializers."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Returns an empty list: there are no Java types to register."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Returns an empty list: there are no Java types to register."""
        return []

    def is_use_snapshot_compression(self) -> bool:
        """Tells whether state files are compressed."""
        return self._configuration.get_boolean(_SNAPSHOT_COMPRESSION, False)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Sets whether state files are compressed."""
        return self._set(_SNAPSHOT_COMPRESSION, "true" if use_snapshot_compression else "false")

    def get_latency_tracking_interval(self) -> int:
        """Returns the interval of latency markers in milliseconds; 0: disabled."""
        return self._ms(_LATENCY_INTERVAL, "0 ms")

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Sets Flink's interval of latency markers, in milliseconds. It has no effect here."""
        return self._set(_LATENCY_INTERVAL, f"{interval} ms")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)

    def _ms(self, key: str, default: str) -> int:
        return parse_duration_ms(self._configuration.get_string(key, default))

    def _set(self, key: str, text: str) -> ExecutionConfig:
        self._configuration.set_string(key, text)
        return self


def check_parallelism(parallelism: int) -> int:
    """Checks that a parallelism is a whole number from 1 to 32768, and returns it. Raises ``InvalidJob``."""
    if isinstance(parallelism, bool) or not isinstance(parallelism, int) or not 1 <= parallelism <= 32768:
        raise InvalidJob(f"the parallelism must be a whole number from 1 to 32768, not {parallelism!r}")
    return parallelism


def check_max_parallelism(max_parallelism: int) -> int:
    """Checks that a maximum parallelism is a whole number from 1 to 32768, and returns it. Raises ``InvalidJob``."""
    if isinstance(max_parallelism, bool) or not isinstance(max_parallelism, int) or not 1 <= max_parallelism <= 32768:
        raise InvalidJob(f"the maximum parallelism must be a whole number from 1 to 32768, not {max_parallelism!r}")
    return max_parallelism


def _split_unquoted(text: str) -> list[str]:
    """Splits a text at commas; a part in single quotes may hold commas, and ``''`` for a quote (Flink's map options)."""
    parts = re.findall(r"'(?:[^']|'')*'|[^,]+", text)
    return [part[1:-1].replace("''", "'") if part.startswith("'") else part.strip() for part in parts]


__getattr__ = finding(__name__, flink_1(__name__))
