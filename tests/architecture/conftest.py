"""The architecture tests share syntax trees, and give them back at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture.source import tree_of


@pytest.fixture(scope="session", autouse=True)
def _trees() -> Iterator[None]:
    """Millions of nodes: pytest's last garbage collections walk whatever is still held, for half a minute and more."""
    yield
    tree_of.cache_clear()
