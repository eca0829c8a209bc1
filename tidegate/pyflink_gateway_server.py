"""PyFlink's start of a JVM (``pyflink.pyflink_gateway_server``): its names can be imported, but using one raises an error."""

from __future__ import annotations

import sys

from tidegate.common.names.java_only import refusing

__getattr__ = refusing(
    __name__,
    "get_log_dir prepare_environment_variables construct_log_settings find_java_executable launch_gateway_server_process "
    "read_from_config",
    "a program needs no gateway server; `tidegate run` and its options start what a job needs",
)


def on_windows() -> bool:
    return sys.platform == "win32"
