"""Each row goes where its partitioner says, once, in order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.taskmanager.exchange.harness import output_of, rows, spec_of
from tidegate.model.errors import SchemaMismatch
from tidegate.model.graph import Partitioner
from tidegate.model.keygroups import key_group, subtask_of
from tidegate.model.program import KeySpec
from tidegate.records.batch import TIMESTAMP_COLUMN, ArrowBatch
from tidegate.records.keys import hash_key
from tidegate.taskmanager.exchange.partitioners import Dealt, make_dealer


def values(dealt: Dealt, column: str = "a") -> dict[int, list[Any]]:
    assert all(piece.num_rows for _, piece in dealt), "no piece is empty"
    return {target: piece.column(column).to_pylist() for target, piece in dealt}


def owner(key: Any, parallelism: int) -> int:
    return subtask_of(key_group(hash_key(key), 128), 128, parallelism)


def by_owner(keys: list[Any], items: list[Any], parallelism: int) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for key, item in zip(keys, items, strict=True):
        found.setdefault(owner(key, parallelism), []).append(item)
    return found


@pytest.mark.parametrize("kind", [Partitioner.FORWARD, Partitioner.GLOBAL, Partitioner.BROADCAST])
def test_everything_to_the_first(kind: Partitioner) -> None:
    dealer = make_dealer(output_of(kind, 1 if kind is Partitioner.FORWARD else 3), spec_of(kind), 2)
    assert values(dealer.deal(rows(1, 2, 3))) == {0: [1, 2, 3]}


def test_rebalance_deals_equal_slices_and_the_odd_rows_in_turn() -> None:
    dealer = make_dealer(output_of(Partitioner.REBALANCE, 3), spec_of(Partitioner.REBALANCE), 4)
    assert values(dealer.deal(rows(1, 2, 3, 4))) == {1: [1, 2], 2: [3], 0: [4]}
    assert values(dealer.deal(rows(5))) == {2: [5]}
    assert values(dealer.deal(rows(6, 7))) == {0: [6], 1: [7]}


@given(sizes=st.lists(st.integers(0, 50), max_size=30), targets=st.integers(1, 9), producer=st.integers(0, 20))
def test_rebalance_is_even_whatever_the_batches(sizes: list[int], targets: int, producer: int) -> None:
    dealer = make_dealer(output_of(Partitioner.REBALANCE, targets), spec_of(Partitioner.REBALANCE), producer)
    counts, seen, start = [0] * targets, list[int](), 0
    for size in sizes:
        if size == 0:
            continue
        for target, found in values(dealer.deal(rows(*range(start, start + size)))).items():
            counts[target] += len(found)
            seen += found
            assert found == sorted(found)
        start += size
    assert sorted(seen) == list(range(start))
    assert max(counts) - min(counts) <= 1


@given(
    keys=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60),
    parallelism=st.integers(1, 128),
)
def test_hash_by_column(keys: list[int | None], parallelism: int) -> None:
    dealer = make_dealer(
        output_of(Partitioner.HASH, parallelism), spec_of(Partitioner.HASH, KeySpec(("k",))), producer_index=0
    )
    batch = ArrowBatch(pa.record_batch({"a": range(len(keys)), "k": pa.array(keys, pa.int64())}))
    assert values(dealer.deal(batch)) == by_owner(keys, list(range(len(keys))), parallelism)


KEY = st.text() | st.tuples(st.integers(), st.text()) | st.none()


@given(keys=st.lists(KEY, min_size=1, max_size=40), parallelism=st.integers(1, 40))
def test_hash_by_keys_of_a_selector(keys: list[Any], parallelism: int) -> None:
    spec = spec_of(Partitioner.HASH, KeySpec(selector=len))
    dealer = make_dealer(output_of(Partitioner.HASH, parallelism), spec, 0)
    found = values(dealer.deal(rows(*range(len(keys))), keys))
    assert found == by_owner(keys, list(range(len(keys))), parallelism)


@pytest.mark.parametrize("parallelism", [2, 3, 128])
def test_several_columns_are_a_tuple_and_timestamps_travel(parallelism: int) -> None:
    numbers, texts = list(range(200)), [f"k{i % 7}" for i in range(200)]
    spec = spec_of(Partitioner.HASH, KeySpec(("a", "s")))
    dealer = make_dealer(output_of(Partitioner.HASH, parallelism), spec, 0)
    dealt = dealer.deal(ArrowBatch(pa.record_batch({"a": numbers, "s": texts}), pa.array(numbers)))
    expected = by_owner(list(zip(numbers, texts, strict=True)), numbers, parallelism)
    assert values(dealt) == values(dealt, TIMESTAMP_COLUMN) == expected


def test_a_missing_key_column_is_named() -> None:
    dealer = make_dealer(output_of(Partitioner.HASH, 2), spec_of(Partitioner.HASH, KeySpec(("user",))), 0)
    with pytest.raises(SchemaMismatch, match=r"edge 3 is keyed by \['user'\].*columns \['a'\]"):
        dealer.deal(rows(1))
    selected = make_dealer(output_of(Partitioner.HASH, 2), spec_of(Partitioner.HASH, KeySpec(selector=len)), 0)
    with pytest.raises(SchemaMismatch, match="and no keys with it"):
        selected.deal(rows(1))
