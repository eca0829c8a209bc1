"""The tutorial, step by step as it is written."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import REPOSITORY
from tests.e2e.pages.runner import Reader


@pytest.mark.timeout(900, method="signal")
def test_the_tutorial(reader: Reader) -> None:
    reader.read(REPOSITORY / "docs" / "tutorial" / "first_job.md")
