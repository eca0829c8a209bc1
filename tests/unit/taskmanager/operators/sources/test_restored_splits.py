"""Which splits of a checkpoint are a subtask's."""

from __future__ import annotations

import pytest

from tidegate.connectors.base import Source, Split, SplitState
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.hybrid.parts import HybridSplit
from tidegate.connectors.hybrid.reader import hybrid_split
from tidegate.connectors.hybrid.source import HybridReaders, HybridSource
from tidegate.connectors.kafka.offsets import KafkaOffsetsInitializer
from tidegate.connectors.kafka.source import KafkaSource
from tidegate.connectors.source.enumerator_host import encoded_split
from tidegate.connectors.source.serializers import PickleSerializer
from tidegate.taskmanager.operators.sources.restored_splits import elements_of, splits_in

SOURCE: Source = FileSource.for_text("/nowhere")
NAMES = [f"s{number}" for number in range(7)]


def handed_out(parallelism: int) -> list[object]:
    """Subtask 0 has the first five; every other split is done."""
    owned = [(NAMES[:5], 0), (NAMES[5:], 1)]
    return [
        element
        for names, subtask in owned
        for element in elements_of(
            [
                SplitState(Split(name, [name]), position=[1, 2], done=number % 2 == 0)
                for number, name in enumerate(names)
            ],
            (subtask, parallelism),
        )
    ]


def names_of(elements: list[object], subtask: int, parallelism: int) -> list[str]:
    return [state.split.split_id for state in splits_in(elements, SOURCE, subtask, parallelism)]


def test_as_many_subtasks_find_what_they_had() -> None:
    assert names_of(handed_out(2), 0, 2) == NAMES[:5]
    assert names_of(handed_out(2), 1, 2) == NAMES[5:]


@pytest.mark.parametrize("parallelism", [1, 3, 4])
def test_at_another_parallelism_each_split_is_dealt_once_and_unfinished_ones_evenly(parallelism: int) -> None:
    dealt = [splits_in(handed_out(2), SOURCE, subtask, parallelism) for subtask in range(parallelism)]
    assert sorted(state.split.split_id for states in dealt for state in states) == NAMES
    unfinished = [sum(not state.done for state in states) for states in dealt]
    assert max(unfinished) - min(unfinished) <= 1


def test_a_state_of_before_coordinators_is_dealt_by_the_places_of_its_splits() -> None:
    elements = elements_of([SplitState(Split(name)) for name in NAMES], None)
    assert names_of(elements, 0, 2) == NAMES[::2]
    assert names_of(elements, 1, 2) == NAMES[1::2]


def test_a_source_that_takes_no_splits_deals_by_its_own_rule() -> None:
    ends = KafkaSource.builder().set_bootstrap_servers("nowhere:1").set_topics("t")
    bounded = ends.set_bounded(KafkaOffsetsInitializer.latest()).build()
    elements = [[f"t-{number}", ["t", number, 0, None], None, False, 0, 2] for number in range(9)]
    found = [splits_in(elements, bounded, subtask, 2) for subtask in range(2)]
    assert all(bounded.owner_of(s.split, 2) == subtask for subtask, states in enumerate(found) for s in states)
    assert sum(map(len, found)) == len(elements)


def test_files_of_a_watched_directory_stay_with_their_readers_and_go_by_their_paths_at_another_parallelism() -> None:
    """As do those of a savepoint of before one reader looked for all."""
    watching = FileSource.for_text("/nowhere").monitor_continuously(1_000)
    splits = [Split(f"/f{number}@0", [f"/f{number}", 0, 1, 1]) for number in range(9)]
    states = [SplitState(split, done=number % 2 == 0) for number, split in enumerate(splits)]
    assert splits_in(elements_of(states, (1, 2)), watching, 1, 2) == states
    assert splits_in(elements_of(states, (1, 2)), watching, 0, 2) == []
    for elements, parallelism in ((elements_of(states, (1, 2)), 3), (elements_of(states, None), 2)):
        found = [splits_in(elements, watching, subtask, parallelism) for subtask in range(parallelism)]
        assert sorted(s.split.split_id for dealt in found for s in dealt) == [split.split_id for split in splits]
        for subtask, dealt in enumerate(found):
            assert all(watching.owner_of(s.split, parallelism) == subtask for s in dealt)


def test_position_and_end_come_back() -> None:
    state = SplitState(Split("a", ["p", 1]), [7, 3], done=True)
    assert splits_in(elements_of([state], (0, 1)), SOURCE, 0, 1) == [state]


def test_the_splits_of_a_hybrid_source_go_where_the_source_of_their_part_says() -> None:
    """At another parallelism, a reader that looks for new splits by that rule would find those of its neighbours otherwise."""
    watching = FileSource.for_text("/nowhere").monitor_continuously(1_000)
    source = HybridReaders(HybridSource.builder(SOURCE).add_source(watching).build())
    splits = [Split(f"/f{number}@0", [f"/f{number}", 0, 1, 1]) for number in range(9)]
    parts = [HybridSplit(part, place, split) for part in (0, 1) for place, split in enumerate(splits)]
    encoded = [encoded_split(PickleSerializer(), split) for split in parts]
    states = [SplitState(Split(split.split_id, split.payload)) for split in encoded]
    dealt = [splits_in(elements_of(states, (0, 5)), source, subtask, 2) for subtask in range(2)]
    found = [[hybrid_split(state.split) for state in states] for states in dealt]
    assert sorted(split.split_id() for splits in found for split in splits) == sorted(p.split_id() for p in parts)
    for subtask, splits_of in enumerate(found):
        assert all(watching.owner_of(split.split, 2) == subtask for split in splits_of if split.part == 1)
        assert sum(split.part == 0 for split in splits_of) in (4, 5), "those without an owner are dealt evenly"
