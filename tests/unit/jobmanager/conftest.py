"""Every machine that is driven here checks its invariants after each event."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.invariants import checked


@pytest.fixture(scope="module", autouse=True)
def _invariants() -> Iterator[None]:
    with checked():
        yield
