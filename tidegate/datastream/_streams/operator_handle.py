"""The settings of one operator, as methods of streams: name, uid, parallelism, chaining, slot sharing (PyFlink: ``pyflink.datastream.data_stream``)."""

from __future__ import annotations

import re
from typing import NoReturn, Self

from tidegate.common.execution_config import check_max_parallelism, check_parallelism
from tidegate.datastream._graph.transformation import (
    ChainingStrategy,
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
    UnionTransformation,
)
from tidegate.datastream.slot_sharing_group import SlotSharingGroup
from tidegate.model.errors import InvalidJob
from tidegate.model.whole_numbers import whole_number

__all__ = ["DataStreamSink", "OperatorHandle"]


class OperatorHandle:
    """The settings of one operator: name, uid, parallelism, chaining, slot sharing."""

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation

    def _operator(self, setting: str) -> OperatorTransformation:
        if not isinstance(self._transformation, OperatorTransformation):
            raise InvalidJob(
                f"{setting} is a setting of an operator, but this stream is {_described(self._transformation)}"
            )
        return self._transformation

    def name(self, name: str) -> Self:
        """Names the operator in plans, logs, metrics and the web page."""
        self._operator("name()").name = name
        return self

    def get_name(self) -> str:
        """Returns the operator's name."""
        return self._operator("get_name()").name

    def uid(self, uid: str) -> Self:
        """Identifies the operator's state across versions of the program. Must be unique in the job."""
        if not uid:
            raise InvalidJob(f"operator {self.get_name()!r}: a uid must not be empty")
        self._operator("uid()").uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Sets the operator's id itself, 32 hexadecimal digits, as logs and savepoints show it: for a job whose ids were generated and whose program
        has changed since. Overrides ``uid``."""
        if not re.fullmatch("[0-9a-f]{32}", uid_hash):
            raise InvalidJob(
                f"operator {self.get_name()!r}: a uid hash is 32 hexadecimal digits in lower case, not {uid_hash!r}"
            )
        self._operator("set_uid_hash()").uid_hash = uid_hash
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the number of the operator's subtasks. Raises ``InvalidJob`` for more than 1 where the operator cannot
        be parallel."""
        operator = self._operator("set_parallelism()")
        if check_parallelism(parallelism) > 1 and operator.is_non_parallel:
            raise InvalidJob(f"operator {operator.name!r} cannot be parallel: its parallelism must be 1")
        operator.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the number of key groups of the operator, which no later rescale can exceed."""
        self._operator("set_max_parallelism()").max_parallelism = check_max_parallelism(max_parallelism)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Sets the longest time (ms) that a record of this operator waits for its batch to fill; -1: until it is full. In a chain the shortest counts."""
        timeout_millis = whole_number(timeout_millis, f"operator {self.get_name()!r}: set_buffer_timeout")
        if timeout_millis < -1:
            raise InvalidJob(
                f"operator {self.get_name()!r}: a buffer timeout of {timeout_millis} ms is not possible; give -1 or more"
            )
        self._operator("set_buffer_timeout()").buffer_timeout_ms = timeout_millis
        return self

    def set_description(self, description: str) -> Self:
        """Describes the operator in the plan, where the name would be too short."""
        self._operator("set_description()").description = description
        return self

    def disable_chaining(self) -> Self:
        """Runs the operator in a task of its own."""
        self._operator("disable_chaining()").chaining = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Sets the slot sharing group: operators of one group may share a slot, which has the group's resources. The default is the group of the
        inputs, if they agree."""
        operator = self._operator("slot_sharing_group()")
        name = slot_sharing_group if isinstance(slot_sharing_group, str) else slot_sharing_group.get_name()
        if not name:
            raise InvalidJob("the name of a slot sharing group must not be empty")
        operator.slot_sharing_group = name
        operator.slot_resources = None if isinstance(slot_sharing_group, str) else slot_sharing_group
        return self

    def __getattr__(self, name: str) -> NoReturn:
        """Raises ``AttributeError`` that names the missing attribute."""
        raise AttributeError(
            name if name.startswith("_") else f"{type(self).__name__}.{name} is not available in tidegate"
        )


class DataStreamSink(OperatorHandle):
    """A sink of a stream, with its settings."""


def _described(transformation: Transformation) -> str:
    match transformation:
        case PartitionTransformation(partitioner=partitioner):
            return f"only partitioned ({partitioner.value}): set it on the stream before or on the operator after it"
        case UnionTransformation():
            return "a union: set it on the streams before or on the operator after it"
        case _:
            return "a side output: set it on the operator that emits it or on the operator after it"
