"""Elements of operator state: large ones lie beside small ones, in order, and come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.model.checkpoint import RestoredOperator
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.taskmanager.state.operator_state import freeze_elements, restore_elements
from tidegate.taskmanager.state.ports import OperatorRestore

LARGE = b"x" * (1 << 20)


@pytest.mark.parametrize(
    "elements", [[], [1], [LARGE], [1, LARGE, 2, [3, LARGE], LARGE, {"a": 4}], [b"y" * 70_000] * 3]
)
def test_elements_of_any_size_come_back_in_order(elements: list[object], tmp_path: Path) -> None:
    frozen = freeze_elements("sink", "state", elements, is_kept_empty=True)
    snapshot = frozen.write(open_segment_store(f"file://{tmp_path}", "attempt", 1, 1000))
    (handle,) = snapshot.operator
    assert handle.elements == len(elements)
    restored = RestoredOperator(operator=snapshot.operator, slices=((0, len(elements)),))
    source = open_segment_source(f"file://{tmp_path}")
    assert restore_elements(OperatorRestore(1, "", restored, source), "state") == elements
    if len(elements) > 3:
        part = RestoredOperator(operator=snapshot.operator, slices=((1, 3),))
        assert restore_elements(OperatorRestore(1, "", part, source), "state") == elements[1:3]
