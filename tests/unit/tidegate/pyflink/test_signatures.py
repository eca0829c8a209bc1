"""A call that PyFlink 2.3.0 takes is one that ours takes: parameters by name, place and default.

``signatures-2.3.0.json`` is recorded from `apache-flink` 2.3.0: module -> function, or class and method -> its parameters, where
``name=default`` has a default. ``Class[]`` is the number of type parameters, ``__all__`` what ``import *`` gives.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tidegate.pyflink.record_names import written
from tests.unit.tidegate.pyflink.test_names import is_refused, reason_to_lack

SIGNATURES: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "signatures-2.3.0.json").read_text(encoding="utf-8")
)
DEVIATIONS = {
    r"(Date|Time|Timestamp)TypeInfo\.(to|from)_internal_type": "all types call the parameter obj, as PyFlink's base does",
    r"(DateTypeInfo|LocalTimeTypeInfo)\.__init__": "the metaclass takes the call, which test_flink_1 makes",
    r"(DataStream|KeyedStream)\.key_by": "key_by(selector, key_type) by place and by name, and further columns: a superset",
    r"KeyedStream\.broadcast": "PyFlink takes anything and refuses; ours refuses with the parameter of DataStream",
    r"StateTtlConfig(\.CleanupStrategies(\.\w+Strategy)?)?\.__init__": "made by StateTtlConfig.new_builder()",
    r"StreamExecutionEnvironment\.execute_async": "without a name the job has that of pipeline.name, else the same as PyFlink's",
    r".*\.(get_java|to_j)_\w+": "objects of Java",
    r"\w*Schema\.__init__|(StatementSet|FunctionContext|UserDefined\w+Wrapper)\.__init__": "made by PyFlink and by us, not by programs",
    r"(DataType|RowType|Resolution)\.__init__|DataTypes\.ROW": "made by DataTypes, which refuses a row without fields",
    r"CatalogBaseTable\.create_table": "defaults that nothing can change",
    r"Expression\.json_value": "without a type the planner takes STRING, too",
    r"(Expression|ImperativeAggregateFunction)\[\]": "PyFlink's type parameters stand for nothing",
    r"TableEnvironment\.create_temporary_view": "streams are taken by a StreamTableEnvironment",
}
"""Pattern of the names whose signature differs -> why."""


def compared(module: str) -> Iterator[tuple[str, str]]:
    """(name, what a call would trip over) for the functions of a module whose signatures differ."""
    ours = importlib.import_module(module.replace("pyflink", "tidegate", 1))
    for path, theirs in SIGNATURES[module].items():
        name, _, rest = path.removesuffix("[]").partition(".")
        if path == "__all__" or reason_to_lack(name, rest) is not None:
            continue
        try:
            found: Any = getattr(ours, name)
            for part in rest.split(".") if rest else ():
                found = getattr(found, part)
        except TypeError:
            continue  # refused in words
        except AttributeError as error:
            yield path, str(error)
            continue
        if is_refused(found):
            continue
        difference = _generic(found, theirs) if path.endswith("[]") else _difference(found, theirs, name, rest)
        if difference:
            yield path, difference


def _generic(found: Any, theirs: list[str]) -> str:
    try:
        found[tuple(Any for _ in range(int(theirs[0])))]
    except TypeError as error:
        return str(error)
    return ""


def _difference(found: Any, theirs: list[str], name: str, rest: str) -> str:
    parameters = list(inspect.signature(found).parameters.values())
    if parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    takes_all = any(p.kind is p.VAR_POSITIONAL for p in parameters) and any(p.kind is p.VAR_KEYWORD for p in parameters)
    if takes_all:
        return ""
    ours = [written(p) for p in parameters]
    for place, parameter in enumerate(theirs):
        if place >= len(ours):
            return f"{parameter} is not taken: {ours}"
        if ours[place] != parameter and ours[place].partition("=")[0] != parameter:
            return f"{ours[place]} instead of {parameter}"
    further = [
        p for p in parameters[len(theirs) :] if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    return f"needs {[p.name for p in further]} too" if further else ""


@pytest.mark.parametrize("module", SIGNATURES)
def test_calls_of_pyflink_are_taken(module: str) -> None:
    found = dict(compared(module))
    assert {n: d for n, d in found.items() if not any(re.fullmatch(p, n) for p in DEVIATIONS)} == {}


def test_every_deviation_is_one() -> None:
    found = [name for module in SIGNATURES for name, _ in compared(module)]
    assert [pattern for pattern in DEVIATIONS if not any(re.fullmatch(pattern, name) for name in found)] == []


@pytest.mark.parametrize("module", SIGNATURES)
def test_a_star_imports_what_pyflinks_does(module: str) -> None:
    ours = importlib.import_module(module.replace("pyflink", "tidegate", 1))
    theirs = {name for name in SIGNATURES[module].get("__all__", []) if reason_to_lack(name, "") is None}
    assert theirs - set(getattr(ours, "__all__", dir(ours))) == set()
