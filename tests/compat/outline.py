"""What a kept job is built from, and what its parts share: a pace that holds it back while its checkpoint is taken."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.taskmanager.runtime.collecting import committed
from tidegate.common import Duration, WatermarkStrategy
from tidegate.common.configuration import Configuration
from tidegate.datastream import StreamExecutionEnvironment

MAX_PARALLELISM = 16
RELEASED = threading.Event()
"""Records of a job that holds itself back flow freely."""


@dataclass(frozen=True)
class Outline:
    """``rate``: rows a second of its sources, ``None`` when it is to end. ``place``: the directory with what is outside of it."""

    world: str
    parallelism: int
    rate: float | None = None
    place: Path = Path("/nowhere")
    configuration: Mapping[str, str] = field(default_factory=dict)
    servers: str = ""
    before: Mapping[str, list[Any]] = field(default_factory=dict)
    """What was visible when the checkpoint was taken, by part."""

    def environment(self) -> StreamExecutionEnvironment:
        configuration = Configuration()
        for key, text in self.configuration.items():
            configuration.set_string(key, text)
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(self.parallelism)
        return env.enable_checkpointing(60_000).set_max_parallelism(MAX_PARALLELISM)

    def committed(self, part: str) -> list[Any]:
        """What the sink of this part has made visible, in the run that was kept and in this one."""
        return [*self.before.get(part, ()), *committed(f"{self.world}-{part}")]


def never_late() -> WatermarkStrategy:
    """Watermarks stay behind every record until the end, so that no window fires before."""
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1)).with_timestamp_column("ts")


def hold_back(seconds: float) -> None:
    RELEASED.wait(seconds)
