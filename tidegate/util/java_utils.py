"""PyFlink's helpers for Java objects (``pyflink.util.java_utils``): the settings of an environment under Java's method names; using any other name
raises an error.

    get_j_env_configuration(env._j_stream_execution_environment).setString("parallelism.default", "2")
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tidegate.common.configuration import Configuration
from tidegate.common.names.java_only import refusing
from tidegate.datastream.stream_execution_environment import StreamExecutionEnvironment

__getattr__ = refusing(
    __name__,
    "to_jarray to_j_duration from_j_duration load_java_class is_instance_of get_field_value get_field invoke_method "
    "is_local_deployment add_jars_to_context_class_loader to_j_explain_detail_arr create_url_class_loader",
    "use the objects of Python that tidegate.common and tidegate.datastream give, and Configuration for settings",
)

_CAPITAL = re.compile(r"(?=[A-Z])")
_NAMES = re.compile(r"(get|set)(String|Integer|Boolean|Float)|containsKey|toMap")


class JavaConfiguration:
    """A ``Configuration`` with Java's method names: ``setString`` for ``set_string``, and so on. Other methods raise ``AttributeError``."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def __getattr__(self, name: str) -> Callable[..., object]:
        if not _NAMES.fullmatch(name):
            raise AttributeError(f"{name}: tidegate has no configuration of Java; use tidegate.common.Configuration")
        method: Callable[..., object] = getattr(
            self.configuration, {"toMap": "to_dict"}.get(name, _CAPITAL.sub("_", name).lower())
        )
        return method


def get_j_env_configuration(j_env: StreamExecutionEnvironment) -> JavaConfiguration:
    """Returns the configuration of an environment; changes of it are changes of the environment."""
    return JavaConfiguration(j_env._configuration)
