"""Bytes from outside give a value or the error that is promised, whatever they are; ``make soak`` looks for hours, guided by what they reach."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_valid_inputs_are_read(name: str) -> None:
    for one in TARGETS[name].corpus:
        TARGETS[name].run(one)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_almost_valid_ends_well_or_with_the_error_that_is_promised(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=60, deadline=None)
    @given(mutated(target.corpus) | st.binary(max_size=200))
    def check(data: bytes) -> None:
        target.run(data)

    check()
