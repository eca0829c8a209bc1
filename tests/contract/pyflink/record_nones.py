"""Records what PyFlink's keyed state makes of ``None``: ``python -m tests.contract.pyflink.record_nones``.

The functions are given the state objects of PyFlink's Python process, which keep what they are given until a bundle ends; behind them
stands a store that is empty.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.contract.pyflink.nones import SCRIPTS, function
from tests.contract.pyflink.returns import api

HERE = Path(__file__).parent
FOUND = HERE / "pyflink_2.3_nones.json"


def main() -> None:
    from tests.servers.flink_environment import flink_environment

    flink = flink_environment()
    environment = {**flink.variables(), "PYTHONPATH": str(HERE.parents[2])}
    subprocess.run([str(flink.python), "-m", __spec__.name, "inside"], env=environment, check=True, timeout=300)


def inside() -> None:
    """In the environment of PyFlink."""
    names = api("pyflink")
    lines = [json.dumps([kind, name, _told(names, kind, name)]) for kind, name in SCRIPTS]
    FOUND.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _told(names: Any, kind: str, name: str) -> list[str]:
    case = function(names, kind, name, "PICKLED_BYTE_ARRAY")
    case.open(_Context())
    return list(case.process_element("write", None))


class _Context:
    """The state objects of PyFlink by descriptor, over an empty store."""

    def __init__(self) -> None:
        from apache_beam.runners.worker import bundle_processor  # type: ignore[import-not-found]
        from pyflink.fn_execution import state_impl
        from pyflink.fn_execution.coders import CloudPickleCoder

        bundle_processor._StateBackedIterable = lambda *_: []
        done = SimpleNamespace(get=lambda: None)
        store = SimpleNamespace(
            blocking_get=lambda *_: (False, None),
            lazy_iterator=lambda *_: iter([]),
            check_empty=lambda *_: True,
            extend=lambda *_: done,
            clear=lambda *_: done,
        )
        coder = CloudPickleCoder()
        backend = SimpleNamespace(
            _state_cache_size=1000,
            _get_internal_bag_state=lambda *_: bundle_processor.SynchronousBagRuntimeState(store, None, None),
            _get_internal_map_state=lambda *_: state_impl.InternalSynchronousMapRuntimeState(
                store, None, coder, coder, 1000
            ),
        )
        self._classes: Any = state_impl
        self._backend = backend

    def _made(self, kind: str, *more: Any) -> Any:
        return getattr(self._classes, f"Synchronous{kind}RuntimeState")("s", *more)

    def get_state(self, descriptor: Any) -> Any:
        return self._made("Value", None, self._backend)

    def get_list_state(self, descriptor: Any) -> Any:
        return self._made("List", None, self._backend)

    def get_map_state(self, descriptor: Any) -> Any:
        return self._made("Map", None, None, self._backend)

    def get_reducing_state(self, descriptor: Any) -> Any:
        return self._made("Reducing", None, self._backend, descriptor.get_reduce_function())

    def get_aggregating_state(self, descriptor: Any) -> Any:
        return self._made("Aggregating", None, self._backend, descriptor.get_agg_function())


if __name__ == "__main__":
    inside() if sys.argv[1:] == ["inside"] else main()
