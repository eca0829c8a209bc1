"""A join of several inputs becomes joins of two: their keys, types and states."""

from __future__ import annotations

from msgspec.structs import replace

from tidegate.plan.logical_types import Field, LogicalType, TypeRoot
from tidegate.plan.nodes import MultiJoin1
from tidegate.plan.specs import AttributeRef, InputProperty, StateMetadata, UnknownDistribution
from tidegate.table._execution.relational import as_joins

_INT = LogicalType(TypeRoot.INTEGER)
_INPUT = InputProperty(UnknownDistribution(), "PIPELINED", 0)


def _row(*names: str) -> LogicalType:
    return LogicalType(TypeRoot.ROW, fields=tuple(Field(name, _INT) for name in names))


_INPUTS = [_row("a", "b"), _row("c"), _row("d", "e", "f")]
_NODE = MultiJoin1(
    id=7,
    output_type=_row("a", "b", "c", "d", "e", "f"),
    description="MultiJoin",
    input_properties=(_INPUT, _INPUT, _INPUT),
    join_types=("INNER", "INNER", "LEFT"),
    join_conditions=(None, None, None),
    join_attribute_map={"1": (AttributeRef(0, 1, 1, 0),), "2": (AttributeRef(1, 0, 2, 1), AttributeRef(0, 0, 2, 2))},
    input_unique_keys=(((0,), (1,)), ((0,),), None),
)


def test_each_input_is_joined_to_the_rows_of_those_before() -> None:
    first, second = as_joins(_NODE, _INPUTS)
    assert (first.join_spec.join_type, first.join_spec.left_keys, first.join_spec.right_keys) == ("INNER", (1,), (0,))
    assert (second.join_spec.join_type, second.join_spec.left_keys, second.join_spec.right_keys) == (
        "LEFT",
        (2, 0),
        (1, 2),
    )
    assert [field.name for field in first.output_type.fields] == ["a", "b", "c"]
    assert second.output_type == _NODE.output_type


def test_rows_of_two_inputs_are_unique_by_a_key_of_each() -> None:
    first, second = as_joins(_NODE, _INPUTS)
    assert (first.left_upsert_keys, first.right_upsert_keys) == (((0,), (1,)), ((0,),))
    assert (second.left_upsert_keys, second.right_upsert_keys) == (((0, 2), (1, 2)), ())


def test_what_is_joined_lives_as_long_as_the_first_of_its_rows_to_go() -> None:
    ttls = ("0 ms", "5000 ms", "3000 ms")
    state = tuple(StateMetadata(at, ttl, f"input-state-{at}") for at, ttl in enumerate(ttls))
    first, second = as_joins(replace(_NODE, state=state), _INPUTS)
    assert [(kept.index, kept.ttl_ms) for kept in first.state] == [(0, 0), (1, 5000)]
    assert [(kept.index, kept.ttl_ms) for kept in second.state] == [(0, 5000), (1, 3000)]
