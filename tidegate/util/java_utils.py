"""PyFlink's helpers for objects of Java (``pyflink.util.java_utils``): the names import, using one is refused."""

from __future__ import annotations

from tidegate.common.java_only import refusing

__getattr__ = refusing(
    __name__,
    "to_jarray to_j_duration from_j_duration load_java_class is_instance_of get_j_env_configuration get_field_value get_field "
    "invoke_method is_local_deployment add_jars_to_context_class_loader to_j_explain_detail_arr create_url_class_loader",
    "use the objects of Python that tidegate.common and tidegate.datastream give, and Configuration for settings",
)
