"""Records the public names and signatures of PyFlink 2.3's tables: ``python -m tests.unit.tidegate.pyflink.record_names``.

It needs no JVM. Run by us it starts itself in the environment of PyFlink (``tests/servers/flink_environment.py``), whose modules it imports. Modules
of other packages stay in the files as they are. What has to do with objects of Java is left out.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
NAMES = HERE / "names-2.3.0.json"
SIGNATURES = HERE / "signatures-2.3.0.json"
PACKAGE = "pyflink.table"
_OF_JAVA = re.compile(
    r"_?j_\w+|java_\w+|\w+_j_\w+|\w*(get|to|from)_java_\w+|\w*jarray\w*|get_gateway|java_method|\w+_jvm|\w*py4j\w*|JavaException|JavaObjectWrapper"
)
"""Names that stand for objects of Java, or make them."""
_LEFT_OUT = {"tests", "serializers", "utils"}
_MARKS = "pyflink.util.api_stability_decorators"


def main() -> None:
    from tests.servers.flink_environment import flink_environment

    flink = flink_environment()
    subprocess.run([str(flink.python), __file__, "inside"], env=flink.variables(), check=True, timeout=300)


def inside() -> None:
    """In the environment of PyFlink."""
    modules = {name: importlib.import_module(name) for name in sorted(modules_of(PACKAGE))}
    _write(NAMES, {name: names_of(module) for name, module in modules.items()})
    _write(SIGNATURES, {name: found for name, module in modules.items() if (found := signatures_of(module))})


def modules_of(package: str) -> Iterator[str]:
    """The package and what is in it, but for tests, how PyFlink moves values to Java, and what begins with an underscore."""
    yield package
    for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        parts = info.name.split(".")
        if not _LEFT_OUT.intersection(parts) and not any(part.startswith("_") for part in parts):
            yield info.name


def names_of(module: ModuleType) -> dict[str, list[str]]:
    """Public classes, functions and values of PyFlink in a module; a class has its public attributes where it is defined."""
    return {
        name: [a for a in sorted(dir(value)) if _is_public(a)] if _is_defined_in(module, value) else []
        for name, value in sorted(vars(module).items())
        if _is_public(name) and _is_of_pyflink(value)
    }


def signatures_of(module: ModuleType) -> dict[str, list[str]]:
    """The parameters of what is defined in a module, without ``self``."""
    found: dict[str, list[str]] = {}
    for name, value in vars(module).items():
        if not _is_public(name) or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            found[name] = _parameters(value)
        elif inspect.isclass(value):
            found |= _of_class(name, value)
    if hasattr(module, "__all__"):
        found["__all__"] = sorted(module.__all__)
    return dict(sorted(found.items()))


def _of_class(path: str, kind: type) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    parameters = getattr(kind, "__parameters__", ())
    if parameters:
        found[f"{path}[]"] = [str(len(parameters))]
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if inspect.isclass(value) and value.__module__ == kind.__module__ and _is_public(name):
            found |= _of_class(f"{path}.{name}", value)
        elif inspect.isfunction(value) and (name == "__init__" or _is_public(name)):
            parameters = _parameters(getattr(kind, name))
            if not any(_OF_JAVA.match(parameter) for parameter in parameters):
                found[f"{path}.{name}"] = parameters
    return found


def _parameters(function: Any) -> list[str]:
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    return [written(parameter) for parameter in parameters]


def written(parameter: inspect.Parameter) -> str:
    """Returns a parameter as the recording has it: its kind as a mark, its name, and its default."""
    marks: dict[object, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**", parameter.KEYWORD_ONLY: "="}
    default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
    return f"{marks.get(parameter.kind, '')}{parameter.name}{default}"


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, (int, str, float, bool, tuple, list, dict, bytes)):
        return repr(value)
    return f"<{type(value).__name__}>"


def _is_public(name: str) -> bool:
    return not name.startswith("_") and _OF_JAVA.fullmatch(name) is None


def _is_defined_in(module: ModuleType, value: object) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__


def _is_of_pyflink(value: object) -> bool:
    home = str(getattr(value, "__module__", ""))
    return inspect.isroutine(value) | inspect.isclass(value) and home.startswith("pyflink.") and home != _MARKS


def _write(path: Path, found: dict[str, dict[str, list[str]]]) -> None:
    before = json.loads(path.read_text(encoding="utf-8"))
    others = {name: names for name, names in before.items() if not f"{name}.".startswith(f"{PACKAGE}.")}
    modules = []
    for module, names in (others | found).items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in names.items())
        modules.append(f"{json.dumps(module)}: {{\n{lines}\n}}")
    path.write_text("{\n" + ",\n".join(modules) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    inside() if sys.argv[1:] == ["inside"] else main()
