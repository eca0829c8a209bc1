"""Figures over many samples: all of them for least, greatest and mean, a window for percentiles."""

from __future__ import annotations

import random

from tidegate.model.stats_summary import NO_SAMPLES, PERCENTS, Samples, percentile


def test_percentiles_are_of_the_window_and_the_rest_is_of_all() -> None:
    seed = random.Random(7)
    values = [seed.randrange(1_000) for _ in range(500)]
    samples = Samples(window=100)
    for value in values:
        samples.add(value)
    found = samples.summary()
    assert (found.count, found.total) == (500, sum(values))
    assert (found.least, found.greatest) == (min(values), max(values))
    assert found.ranks == tuple(percentile(sorted(values[-100:]), percent) for percent in PERCENTS)


def test_nothing_and_one() -> None:
    samples = Samples()
    assert samples.summary() == NO_SAMPLES
    samples.add(-3)
    found = samples.summary()
    assert (found.least, found.greatest, found.ranks) == (-3, -3, (-3.0,) * 5)
