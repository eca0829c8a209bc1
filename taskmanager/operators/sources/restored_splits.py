"""A source's splits in checkpoints: their elements of union state, and which subtask gets which of them.

    [id, content, position, done]                             dealt in advance: by the splits alone
    [id, content, position, done, subtask, parallelism]       handed out by a coordinator: the subtask's own, as long as as many
                                                              subtasks read; at another parallelism ``Source.owner_of`` says, or they are
                                                              dealt evenly, unfinished ones first

A subtask that restarts alone must get exactly the splits that it had, since its siblings go on with theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.connectors.base import Source, Split, SplitState
from tidegate.model.values import StateValue

_DEALT_IN_ADVANCE = 4
"""Number of fields of an element that names no subtask."""


def elements_of(states: Iterable[SplitState], owner: tuple[int, int] | None) -> list[StateValue]:
    """Returns the elements of union state for splits. ``owner``: subtask and parallelism, for a source with a coordinator; otherwise ``None``."""
    mark = () if owner is None else owner
    return [[s.split.split_id, s.split.payload, s.position, s.done, *mark] for s in states]


def splits_in(elements: Sequence[StateValue], source: Source, subtask: int, parallelism: int) -> list[SplitState]:
    """Returns the restored splits of one subtask, in the order of their ids. ``elements``: of all subtasks."""
    states = [SplitState(Split(element[0], element[1]), element[2], element[3]) for element in elements]
    if all(len(element) == _DEALT_IN_ADVANCE for element in elements) or not source.takes_splits:
        return own_splits(source, states, subtask, parallelism)
    if all(element[_DEALT_IN_ADVANCE + 1] == parallelism for element in elements):
        owned = zip(states, elements, strict=True)
        found = [state for state, element in owned if element[_DEALT_IN_ADVANCE] == subtask]
    else:
        owners = {state.split.split_id: source.owner_of(state.split, parallelism) for state in states}
        free = [state for state in states if owners[state.split.split_id] is None]
        found = sorted(free, key=lambda state: (state.done, state.split.split_id))[subtask::parallelism]
        found += [state for state in states if owners[state.split.split_id] == subtask]
    return sorted(found, key=lambda state: state.split.split_id)


def split_ids_in(elements: Sequence[StateValue]) -> list[str]:
    """Returns the ids of the splits of all subtasks."""
    return [element[0] for element in elements]


def own_splits(source: Source, states: Sequence[SplitState], subtask: int, parallelism: int) -> list[SplitState]:
    """Returns the splits, of all given ones, that belong to one subtask, in the order of their ids."""
    found = []
    for place, state in enumerate(sorted(states, key=lambda state: state.split.split_id)):
        owner = source.owner_of(state.split, parallelism)
        if (place % parallelism if owner is None else owner) == subtask:
            found.append(state)
    return found
