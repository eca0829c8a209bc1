"""Deployed attempts of a job as noted in the job store before each deployment: the last number of every region.

    7 0:7 3:9      the regions 0 and 3 had their last attempts as 7 and 9, all others as 7

Numbers alone do not tell: when one region has restarted more often than another, the highest one of the job is that of some region only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.model.errors import CorruptData

_FORM = re.compile(r"\d+( \d+:\d+)*")


@dataclass(frozen=True, slots=True)
class NotedAttempts:
    """The last attempt numbers. ``of_all``: the number with which all regions were deployed; -1 when nothing was. ``of_regions``: higher ones, by the
    index of a region."""

    of_all: int = -1
    of_regions: Mapping[int, int] = field(default_factory=dict)

    @property
    def highest(self) -> int:
        return max(self.of_all, *self.of_regions.values(), -1)

    def of(self, region: int) -> int:
        return max(self.of_all, self.of_regions.get(region, -1))

    def covers(self, region: int | None, attempt: int) -> bool:
        """Returns whether the job store holds this attempt number of a region, or a higher one. ``region`` is ``None``: for all regions."""
        return attempt <= (self.of_all if region is None else self.of(region))

    def noting(self, attempts: Mapping[int | None, int]) -> NotedAttempts:
        """Returns a copy in which these attempt numbers are added, by region. Key ``None``: a number for all regions."""
        of_all = max(self.of_all, attempts.get(None, -1))
        more = {region: attempt for region, attempt in attempts.items() if region is not None}
        regions = {region: max(self.of(region), more.get(region, -1)) for region in {*self.of_regions, *more}}
        return NotedAttempts(of_all, {region: n for region, n in sorted(regions.items()) if n > of_all})

    def __str__(self) -> str:
        return " ".join([str(self.of_all), *(f"{region}:{attempt}" for region, attempt in self.of_regions.items())])


def parse_noted_attempts(text: str) -> NotedAttempts:
    """Parses noted attempts. Raises ``CorruptData`` for another form."""
    if not _FORM.fullmatch(text):
        raise CorruptData(f"the entry is {text[:20]!r}, and not the numbers of attempts")
    of_all, *regions = text.split()
    pairs = (region.split(":") for region in regions)
    return NotedAttempts(int(of_all), {int(region): int(attempt) for region, attempt in pairs})
