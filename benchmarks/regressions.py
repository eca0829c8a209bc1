"""Whether a benchmark fell behind the figures of an earlier commit: ratios to a yardstick of the same run, so that the machine does not count.

baseline.json: commit, date, rows, repeats, and the ratio of each part ─┐
the ratios of this run ─────────────────────────────────────────────────┴▶ compared: one line for each part, and which fell
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

BASELINE = Path(__file__).resolve().parent / "baseline.json"
ALLOWED = 0.15
"""Single runs of one commit differ by 10 to 25 % on a shared machine, their ratios by less."""


class UnfitBaseline(ValueError):
    """The baseline cannot be compared with; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """``ratios``: to pyarrow in the same run, by part of ``benchmarks/run.py``. They depend on ``rows``: starting and ending take their time."""

    commit: str
    date: str
    rows: int
    repeats: int
    ratios: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Compared:
    part: str
    before: float
    now: float

    @property
    def change(self) -> float:
        """As a part of what it was; negative: it fell."""
        return self.now / self.before - 1

    @property
    def has_fallen(self) -> bool:
        return self.change < -ALLOWED

    def says(self) -> str:
        verdict = f": FELL by more than {ALLOWED:.0%}" if self.has_fallen else ""
        return f"{self.part}: {self.now:.2f} of pyarrow, {self.before:.2f} before ({self.change:+.0%}){verdict}"


def compare(baseline: Baseline, rows: int, ratios: Mapping[str, float]) -> list[Compared]:
    """The parts that both know, in the order of the run. Raises ``UnfitBaseline`` when the baseline is of other rows."""
    if baseline.rows != rows:
        raise UnfitBaseline(
            f"the baseline, of {baseline.commit}, was taken with --rows {baseline.rows}, this run with --rows {rows}: ratios depend on "
            f"that. Run with --rows {baseline.rows}, or take a new baseline with --write-baseline"
        )
    return [Compared(part, baseline.ratios[part], ratio) for part, ratio in ratios.items() if part in baseline.ratios]


def read(path: Path = BASELINE) -> Baseline | None:
    """``None``: there is no such file. Raises ``UnfitBaseline`` when it has something else in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UnfitBaseline(f"{path} is no JSON ({error}): take a new baseline with --write-baseline") from None
    try:
        ratios = {str(part): float(ratio) for part, ratio in content["ratios"].items()}
        found = Baseline(content["commit"], content["date"], int(content["rows"]), int(content["repeats"]), ratios)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnfitBaseline(f"{path} is no baseline ({error!r}): take a new one with --write-baseline") from None
    wrong = [f"{part}: {ratio}" for part, ratio in found.ratios.items() if not 0 < ratio < float("inf")]
    if wrong:
        raise UnfitBaseline(
            f"{path} has ratios that cannot be ({', '.join(wrong)}): take a new one with --write-baseline"
        )
    return found


def write(baseline: Baseline, path: Path = BASELINE) -> None:
    path.write_text(json.dumps(asdict(baseline), indent=1) + "\n", encoding="utf-8")
