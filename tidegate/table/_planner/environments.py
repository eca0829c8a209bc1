"""Flink's ``TableEnvironment`` objects in the planner, with our tables registered in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.table._planner.planner import Planner
from tidegate.table._planner.tables import Functions, NoFunctions, make_module

_ALWAYS = {
    "table.plan.compile.catalog-objects": "ALL",  # a plan holds its tables, so that it runs without a catalog
    "table.optimizer.multiple-input-enabled": "false",  # this and the next: only so do batch plans serialise
    "table.optimizer.adaptive-broadcast-join.strategy": "none",
    "table.optimizer.skewed-join-optimization.strategy": "none",
}


def make_table_environment(
    planner: Planner, options: Mapping[str, str], *, is_streaming: bool, functions: Functions | None = None
) -> Any:
    """Creates a Java ``TableEnvironment`` that asks us for every table. Raises ``PlannerUnavailable``."""
    with planner.errors():
        configuration = planner.jvm.org.apache.flink.configuration.Configuration()
        for key, text in {**options, **_ALWAYS}.items():
            configuration.setString(key, text)
        builder = planner.api.EnvironmentSettings.newInstance().withConfiguration(configuration)
        settings = (builder.inStreamingMode() if is_streaming else builder.inBatchMode()).build()
        environment = planner.api.TableEnvironment.create(settings)
        environment.loadModule("tidegate", make_module(planner, functions or NoFunctions()))
        return environment
