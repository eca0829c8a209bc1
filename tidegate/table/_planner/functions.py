"""Functions of users in Flink's planner: it knows their names and types, and calls none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.table.expression import java_type

if TYPE_CHECKING:
    from tidegate.table._planner.session import Planner
    from tidegate.table.udf import UserDefinedFunctionWrapper


_CLASSES = {"scalar": "PythonScalarFunction", "async": "PythonAsyncScalarFunction", "table": "PythonTableFunction"}


class Functions:
    """Functions that are called without a name in a catalog, such as ``add(col("a"))``, under names of ours, of which every environment knows."""

    def __init__(self) -> None:
        self._by_name: dict[str, UserDefinedFunctionWrapper] = {}
        self._names: dict[int, str] = {}

    @property
    def by_name(self) -> dict[str, UserDefinedFunctionWrapper]:
        """By the name that a plan has."""
        return self._by_name

    def name_of(self, function: UserDefinedFunctionWrapper) -> str:
        """Its name, given at the first call. It ends in ``*`` and a number, which no name of a user does."""
        name = self._names.get(id(function))
        if name is None:
            name = self._names[id(function)] = f"{function.name.lower()}*{len(self._names) + 1}"
            self._by_name[name] = function
        return name


UNNAMED = Functions()


def java_function(planner: Planner, function: UserDefinedFunctionWrapper) -> Any:
    """Flink's definition of a function."""
    python = planner.jvm.org.apache.flink.table.functions.python
    types = planner.jvm.org.apache.flink.table.types
    given = function.input_types
    inputs = None if given is None else planner.array(types.DataType, [java_type(type, planner) for type in given])
    kind = python.PythonFunctionKind.GENERAL if function.func_type == "general" else python.PythonFunctionKind.PANDAS
    environment = python.PythonEnv(python.PythonEnv.ExecType.PROCESS)
    return getattr(python, _CLASSES[function.kind])(
        function.name,
        b"-",  # the function itself does not go there
        inputs,
        java_type(function.result_type, planner),
        kind,
        function.deterministic,
        function.takes_row,
        environment,
    )
