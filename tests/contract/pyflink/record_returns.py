"""Records what PyFlink emits for what a function returns, for every adapter: ``python -m tests.contract.pyflink.record_returns``.

It takes some minutes, with a JDK. PyFlink builds the program; the function that it would send to a Python process is taken, with its
adapter, and called by that process's own code. Windows, whose operator needs a state backend, run as jobs. ``error``: an exception.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.contract.pyflink.returns import RETURNS, api, pieces, reprs

HERE = Path(__file__).parent
FOUND = HERE / "pyflink_2.3_returns.json"
ALONE = ("None", "0", "5")
"""What windows are asked for one by one, since it makes a job fail."""
NOT_ITERABLE = {"None": "None", "0": "0", "False": "0", "5": "5", "True": "5", "1.5": "5"}
"""By the one of ``ALONE`` that is like it."""


def main() -> None:
    from tests.servers.flink_environment import flink_environment

    flink = flink_environment()
    environment = {**flink.variables(), "PYTHONPATH": str(HERE.parents[2])}
    subprocess.run([str(flink.python), "-m", __spec__.name, "inside"], env=environment, check=True, timeout=3000)


def inside() -> None:
    """In the environment of PyFlink."""
    from pyflink.datastream import StreamExecutionEnvironment, data_stream

    sent: list[tuple[Any, int]] = []
    original = data_stream._create_j_data_stream_python_function_info

    def noted(func: Any, func_type: int) -> Any:
        sent.append((func, func_type))
        return original(func, func_type)

    data_stream._create_j_data_stream_python_function_info = noted
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    names, lines = api("pyflink"), []
    for piece, make in pieces(names).items():
        if piece.startswith("window"):
            found = _by_jobs(env, names, piece)
        else:
            make(*_streams(env, names, []))
            func, func_type = sent[-1]
            found = {name: _by_the_worker(func, func_type, piece, name) for name in RETURNS}
        lines += [json.dumps([piece, name, found[name]]) for name in RETURNS]
        print(piece, found, file=sys.stderr, flush=True)
        FOUND.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _streams(env: Any, names: Any, records: list[str]) -> tuple[Any, Any]:
    text = names.Types.STRING()
    none = env.from_collection(["none"], text).filter(lambda _: False)
    return env.from_collection(records or ["none"], text), none


def _by_the_worker(func: Any, func_type: int, piece: str, name: str) -> Any:
    import cloudpickle
    from pyflink.common import Row
    from pyflink.fn_execution.datastream.process.operations import (
        extract_stateful_function,
        extract_stateless_function,
    )
    from pyflink.fn_execution.flink_fn_execution_pb2 import UserDefinedDataStreamFunction as Kinds

    told = SimpleNamespace(function_type=func_type, has_side_output=False, payload=cloudpickle.dumps(func))
    backend = SimpleNamespace(set_current_key=lambda key: None, _namespace_coder_impl=None)
    first = not piece.endswith((" 2", " side"))
    value, other = (name, None) if first else (None, name)
    keyed = Row("k", name)
    data = {
        Kinds.PROCESS: name,
        Kinds.CO_PROCESS: [first, value, other],
        Kinds.CO_BROADCAST_PROCESS: [first, value, other],
        Kinds.KEYED_PROCESS: keyed,
        Kinds.KEYED_CO_PROCESS: [first, keyed, keyed],
        Kinds.KEYED_CO_BROADCAST_PROCESS: [first, keyed, other],
    }[func_type]
    try:
        if func_type in (Kinds.PROCESS, Kinds.CO_PROCESS, Kinds.CO_BROADCAST_PROCESS):
            _, _, process = extract_stateless_function(told, None, None)
            emitted = list(process([0, 0, data]))
        else:
            _, _, process, on_timer, _ = extract_stateful_function(told, None, backend, None)
            emitted = list(on_timer([0, 0, 1, Row((1, name)), None]) if piece == "on_timer" else process([0, 0, data]))
    except Exception:  # noqa: BLE001  of many kinds: the job fails
        return "error"
    return [repr(row[2]) for row in emitted]


def _by_jobs(env: Any, names: Any, piece: str) -> dict[str, Any]:
    is_one = "aggregate" in piece
    refused = ("None", "generator of nothing") if is_one else ("[None]", *NOT_ITERABLE)
    easy = [name for name in RETURNS if name not in refused]
    emitted = _emitted(env, names, piece, easy)
    assert emitted is not None, piece
    found: dict[str, Any] = dict(zip(easy, emitted, strict=True))
    if is_one:  # what cannot be pickled, or written as the bytes that a pickled record is
        return {**found, **dict.fromkeys(refused, "error")}
    found["[None]"] = "error"
    for name in ALONE:
        alone = _emitted(env, names, piece, [name])
        found[name] = "error" if alone is None else alone[0]
    return found | {name: found[like] for name, like in NOT_ITERABLE.items()}


def _emitted(env: Any, names: Any, piece: str, returns: list[str]) -> list[list[str]] | None:
    records = [record for name in returns for record in (name, "|")][:-1]
    try:
        with pieces(names)[piece](*_streams(env, names, records)).execute_and_collect() as results:
            found = reprs(list(results))
    except Exception:  # noqa: BLE001  of many kinds: the job fails
        return None
    return found if len(found) == len(returns) else None


if __name__ == "__main__":
    inside() if sys.argv[1:] == ["inside"] else main()
