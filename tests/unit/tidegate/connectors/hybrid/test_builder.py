"""What can and what cannot be parts of a hybrid source."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.common import Types
from tidegate.connectors.base import Source
from tidegate.connectors.collection import CollectionSource
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.hybrid.parts import HybridPart
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.source import Boundedness
from tidegate.datastream.connectors.hybrid_source import HybridSource
from tidegate.model.errors import InvalidJob

WORDS = CollectionSource(["to", "be"], Types.STRING())
WATCHED = FileSource.for_text("logs").monitor_continuously(100)


def test_it_ends_as_its_last_part_does() -> None:
    assert HybridSource.builder(WORDS).build().get_boundedness() is Boundedness.BOUNDED
    unbounded = HybridSource.builder(WORDS).add_source(WATCHED).build()
    assert unbounded.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert unbounded.get_produced_type() == Types.STRING()


def test_nothing_follows_a_part_that_never_ends() -> None:
    with pytest.raises(InvalidJob, match="part 1 of a hybrid source never ends"):
        HybridSource.builder(WATCHED).add_source(WORDS)
    with pytest.raises(InvalidJob, match="part 2 of a hybrid source never ends"):
        HybridSource.builder(WORDS).add_source(lambda context: WORDS).add_source(WORDS)


def test_parts_have_one_type() -> None:
    with pytest.raises(InvalidJob, match="one type"):
        HybridSource.builder(WORDS).add_source(NumberSequenceSource(1, 2))


@pytest.mark.parametrize("wrong", [7, None])
def test_what_is_no_source_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidJob, match="not (7|None)"):
        HybridSource.builder(wrong)
    with pytest.raises(InvalidJob, match="not (7|None)"):
        HybridSource.builder(WORDS).add_source(wrong)


def test_what_a_function_makes_is_checked_at_the_switch() -> None:
    def of(made: Any) -> HybridPart:
        return HybridPart(lambda context: made, bounded=True)

    found: Source = of(WORDS).made(WORDS)
    assert found is WORDS
    with pytest.raises(InvalidJob, match="which is not a source"):
        of("topic").made(WORDS)
    with pytest.raises(InvalidJob, match="must end"):
        of(WATCHED).made(WORDS)
