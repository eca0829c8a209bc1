"""Writes ``streams.json`` beside it: what PyFlink 2.3 makes of streams as tables, and of tables as streams.

Run by the Python of a Flink environment (``tests/servers/flink_environment.py``), in the root of the repository, as a script, which takes some minutes;
with names of its parts (``schemas rows sql all_programs``) it records these again.

``schemas``: the columns of ``from_data_stream`` for each type of a stream, alone and in others. ``selected``, ``seen``: of rows with a field of each type,
the texts that ``SELECT`` prints, and what a function behind ``to_data_stream`` is given. ``columns``: what it is given for each type of a column.
``programs``: the columns of a table or the records of a stream, or the first line of the reason why there is none. ``ERROR`` begins a reason.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
os.environ["TZ"] = "UTC"
from py4j.protocol import Py4JJavaError

from tests.contract.table_streams.cases import SQL, api, columns, described, forms, kinds, programs
from tests.differential_tables.flink_side import changes

RECORDING = Path(__file__).parent / "streams.json"
OPTIONS = {
    "parallelism.default": "1",
    "table.local-time-zone": "UTC",
    "rest.port": "0",
    "rest.bind-port": "0",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
}
A = api("pyflink")
STRING = A.Types.STRING()


def main() -> None:
    found: dict[str, Any] = {"schemas": {}, "selected": {}, "seen": {}, "columns": {}, "programs": {}}
    parts = {part.__name__: part for part in (schemas, rows, sql, all_programs)}
    if len(sys.argv) > 1:
        found = json.loads(RECORDING.read_text("utf-8"))
        parts = {name: parts[name] for name in sys.argv[1:]}
    for part in parts.values():
        part(found)
        RECORDING.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")
        print(part.__name__, file=sys.stderr, flush=True)
    os._exit(0)  # the cluster's threads would not end


def environment() -> tuple[Any, Any]:
    configuration = A.Configuration()
    for key, text in OPTIONS.items():
        configuration.set_string(key, text)
    env = A.StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env, A.StreamTableEnvironment.create(env)


def reason(error: BaseException) -> str:
    """The first line of the innermost one."""
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        text = f"{cause.getClass().getName()}: {cause.getMessage()}"
    else:
        text = f"{type(error).__name__}: {error}"
    return f"ERROR {text.strip().splitlines()[0]}"


def tried(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:  # noqa: BLE001  of many kinds
        return reason(error)


def collected(stream: Any) -> list[str]:
    with stream.execute_and_collect() as results:
        return list(results)


def schemas(found: dict[str, Any]) -> None:
    env, tables = environment()
    base = env.from_collection([1], A.Types.INT())
    for name, (kind, _) in kinds(A).items():
        found["schemas"][name] = {
            form: columns(tables.from_data_stream(base.map(lambda value: value, type)))
            for form, type in forms(A, kind).items()
        }


def rows(found: dict[str, Any]) -> None:
    given = kinds(A)

    def table(tables: Any, env: Any, names: list[str]) -> Any:
        type = A.Types.ROW_NAMED([f"c{i}" for i in range(len(names))], [given[name][0] for name in names])
        return tables.from_data_stream(env.from_collection([A.Row(*[given[name][1] for name in names])], type))

    def selected(names: list[str]) -> list[str]:
        env, tables = environment()
        ((_, texts),) = changes(table(tables, env, names)._j_table.execute())
        return [str(text) for text in texts]

    def seen(names: list[str]) -> list[str]:
        env, tables = environment()
        stream = tables.to_data_stream(table(tables, env, names))
        (texts,) = collected(stream.map(lambda row: json.dumps(list(map(described, row))), STRING))
        return list(json.loads(texts))

    in_parts(selected, list(given), found["selected"])
    in_parts(seen, list(given), found["seen"])


def sql(found: dict[str, Any]) -> None:
    for way in ("data", "changelog"):

        def seen(names: list[str], way: str = way) -> list[str]:
            env, tables = environment()
            tables.create_temporary_view("v", tables.from_data_stream(env.from_collection([1], A.Types.INT())))
            table = tables.sql_query(f"SELECT {', '.join(f'{SQL[name]} AS `{name}`' for name in names)} FROM v")
            stream = tables.to_data_stream(table) if way == "data" else tables.to_changelog_stream(table)
            (texts,) = collected(stream.map(lambda row: json.dumps(list(map(described, row))), STRING))
            return list(json.loads(texts))

        found["columns"][way] = {}
        in_parts(seen, [name for name in SQL if name != "pt"], found["columns"][way])


def in_parts(job: Callable[[list[str]], list[str]], names: list[str], found: dict[str, str]) -> None:
    """All by one job, or, where that fails, halves of them."""
    try:
        found.update(zip(names, job(names), strict=True))
    except Exception as error:  # noqa: BLE001  of many kinds
        if len(names) == 1:
            found[names[0]] = reason(error)
            return
        middle = len(names) // 2
        in_parts(job, names[:middle], found)
        in_parts(job, names[middle:], found)


def all_programs(found: dict[str, Any]) -> None:
    env, _ = environment()
    results, streams = found["programs"], []
    for name, program in programs(A).items():
        made = tried(partial(program.make, *_given(env, program)))
        if isinstance(made, A.Table):
            made = tried(partial(columns, made))
        results[name] = made if isinstance(made, str) else []
        if not isinstance(made, str):
            streams.append(name)
    fail = [name for name in streams if programs(A)[name].fails]
    for names in [*_parts([name for name in streams if name not in fail], 20), *([name] for name in fail)]:
        _record(names, results)


def _record(names: list[str], results: dict[str, Any]) -> None:
    """By one job, or, where that fails, by one for each half."""
    try:
        lines = [json.loads(line) for line in _run(names)]
    except Exception as error:  # noqa: BLE001  of many kinds
        if len(names) == 1:
            results[names[0]] = reason(error)
            return
        middle = len(names) // 2
        _record(names[:middle], results)
        _record(names[middle:], results)
        return
    for name in names:
        results[name] = [text for found, text in lines if found == name]


def _given(env: Any, program: Any) -> tuple[Any, Any]:
    return A.StreamTableEnvironment.create(env), env.from_collection(list(program.records), program.type)


def _run(names: list[str]) -> list[str]:
    """The records of programs, with their names, by one job."""
    env, _ = environment()
    first, *others = [_tagged(programs(A)[name].make(*_given(env, programs(A)[name])), name) for name in names]
    return collected(first.union(*others) if others else first)


def _tagged(stream: Any, name: str) -> Any:
    return stream.map(lambda value: json.dumps([name, value if isinstance(value, str) else described(value)]), STRING)


def _parts(names: list[str], size: int) -> Iterable[list[str]]:
    for at in range(0, len(names), size):
        yield names[at : at + size]


if __name__ == "__main__":
    main()
