"""Pickling of programs with cloudpickle; if it fails, finds the object that cannot be pickled.

Functions and classes of the job's own script (``__main__``) and lambdas travel by value; those of modules by name, so the
modules must be there (``local_modules`` ships what lies beside the script).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields

import cloudpickle

from tidegate.connectors.base import Sink, Source
from tidegate.datastream._graph.local_modules import modules_next_to_the_job
from tidegate.model.errors import NotSerializable
from tidegate.model.ids import OperatorId
from tidegate.model.program import VertexProgram
from tidegate.records.pickling import dumps

_MAX_DEPTH = 12
"""How deep the cause is searched for: enough for what people write, and a bound for objects created on access."""


def pickle_program(program: VertexProgram) -> bytes:
    """Raises ``NotSerializable`` naming the operator and the innermost object that cannot be pickled."""
    try:
        return dumps(program)
    except Exception as error:
        for spec in program.operators:
            options = {found.name: getattr(spec.options, found.name) for found in fields(spec.options)}
            named = {**options, "key": spec.key, "second key": spec.second_key, "output type": spec.output_type}
            _blame(f"operator {spec.name!r}", named)
        for output in program.outputs:
            _blame(f"key_by behind operator {program.operators[output.operator].name!r}", {"key": output.key})
        raise NotSerializable(
            f"the program of the job cannot be pickled: {_reason(error)}; create what cannot be pickled in open() of the function that uses it"
        ) from error


def pickle_for_spark(operators: Mapping[OperatorId, Source | Sink]) -> bytes:
    """Pickles the sources and sinks that a TaskManager's Spark driver runs. Modules beside the job are pickled by value: the driver serves many jobs,
    whose modules may have equal names."""
    try:
        with _by_value(modules_next_to_the_job()):
            return dumps(dict(operators))
    except Exception as error:
        raise NotSerializable(
            f"the function that the job gives to Spark cannot be shipped: {_reason(error)}"
        ) from error


@contextmanager
def _by_value(modules: Sequence[types.ModuleType]) -> Iterator[None]:
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _blame(owner: str, named: dict[str, object]) -> None:
    """Raises ``NotSerializable`` if one of these objects is the cause of the failure."""
    for name, value in named.items():
        error = _failure(value)
        if error is None:
            continue
        path, culprit, reason = _innermost(value, name, error, frozenset(), 0)
        raise NotSerializable(
            f"{owner} cannot be shipped: {path} is of type {type(culprit).__qualname__!r}, which cannot be "
            f"pickled ({_reason(reason)}); create it in open() of the function, which runs in the subtask"
        ) from reason


def _innermost(
    value: object, path: str, error: Exception, seen: frozenset[int], depth: int
) -> tuple[str, object, Exception]:
    if depth < _MAX_DEPTH:
        for step, part in _parts(value):
            if id(part) in seen:
                continue
            cause = _failure(part)
            if cause is not None:
                return _innermost(part, step, cause, seen | {id(value)}, depth + 1)
    return path, value, error


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """Yields the objects that are pickled with an object, each with a description of its place."""
    match value:
        case types.FunctionType():
            yield from _function_parts(value)
        case types.MethodType():
            yield f"the object of {value.__qualname__}()", value.__self__
        case functools.partial():
            yield from (("the function of a partial", value.func), ("arguments of a partial", value.args))
            yield "keywords of a partial", value.keywords
        case dict():
            yield from ((f"item {key!r}", item) for key, item in value.items())
        case list() | tuple() | set() | frozenset():
            yield from ((f"item {index}", item) for index, item in enumerate(value))
        case type():
            yield from ((f"{value.__qualname__}.{name}", item) for name, item in vars(value).items() if _is_user(item))
        case _:
            owner = type(value).__qualname__
            yield from ((f"attribute {name!r} of {owner}", item) for name, item in _attributes(value))
            yield f"class {owner}", type(value)


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    where = f"{function.__qualname__} ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"variable {name!r} in {where}", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield f"global {name!r} used by {where}", function.__globals__[name]
    for default in function.__defaults__ or ():
        yield f"a default of {where}", default


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)


def _is_user(item: object) -> bool:
    return not isinstance(item, (types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType))


def _failure(value: object) -> Exception | None:
    try:
        dumps(value)
    except Exception as error:  # noqa: BLE001  (user objects raise whatever they like)
        return error
    return None


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
