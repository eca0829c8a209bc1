"""What others have published: thousand events a second for each core, on machines, generators and sinks of their own. An anchor, no comparison.

Feldera and Flink beside it: Feldera's repository, benchmark/README.md of 2024-08-14, 16 cores, divided by 16. RisingWave: one node, a build of 2023.
Arroyo has published none by query that could be read.
"""

from __future__ import annotations

from collections.abc import Mapping

FELDERA: Mapping[str, int] = {
    "q0": 436, "q1": 412, "q2": 422, "q3": 413, "q4": 265, "q5": 412, "q7": 196, "q8": 415, "q9": 57, "q12": 418, "q13": 230, "q14": 429,
    "q15": 221, "q16": 51, "q17": 242, "q18": 85, "q19": 75, "q20": 85, "q21": 415, "q22": 394,
}  # fmt: skip
FLINK: Mapping[str, int] = {
    "q0": 165, "q1": 163, "q2": 195, "q3": 127, "q4": 31, "q5": 41, "q7": 18, "q8": 131, "q9": 13, "q12": 125, "q13": 98, "q14": 137,
    "q15": 57, "q16": 15, "q17": 107, "q18": 32, "q19": 63, "q20": 17, "q21": 77, "q22": 95,
}  # fmt: skip
"""Its version is not said."""
RISINGWAVE: Mapping[str, int] = {
    "q0": 118, "q1": 119, "q2": 127, "q3": 97, "q4": 14, "q5": 5, "q7": 20, "q8": 61, "q9": 8, "q15": 79, "q16": 8, "q17": 17, "q18": 10,
    "q20": 13,
}  # fmt: skip
