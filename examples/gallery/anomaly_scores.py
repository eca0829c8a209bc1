"""Scores of readings by a model, a batch of readings at a time: ``map_batches`` with the model in the function.

    python examples/gallery/anomaly_scores.py
    python examples/gallery/anomaly_scores.py --model isolation-forest     with scikit-learn's (pip install scikit-learn)

    readings ─▶ scores, up to 65,536 readings a call ─▶ those that are stranger than one of a thousand of the first day ─▶ Parquet

The program fits the model to the readings of a day; subtasks are given the fitted one with the function.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.common import WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment, col

READINGS, FIRST_DAY, MACHINES = 300_000, 50_000, 100
FEATURES = ["celsius", "bar", "rpm", "watts"]
SCORED = pa.schema([("reading", pa.int64()), ("machine", pa.int64()), ("score", pa.float64())])
Numbers = npt.NDArray[Any]


class Model(Protocol):
    """What scikit-learn's detectors of outliers have: ``fit``, and scores, of which low ones are strange."""

    def fit(self, values: Numbers) -> Model: ...

    def score_samples(self, values: Numbers) -> Numbers: ...


class Gaussian:
    """A model for those who have no scikit-learn: the distance of Mahalanobis from the mean, with a minus."""

    def fit(self, values: Numbers) -> Gaussian:
        self.mean, self.inverse = values.mean(axis=0), np.linalg.inv(np.cov(values, rowvar=False))
        return self

    def score_samples(self, values: Numbers) -> Numbers:
        away = values - self.mean
        scores: Numbers = -np.sqrt(np.einsum("ij,jk,ik->i", away, self.inverse, away))
        return scores


def model_of(name: str) -> Model:
    if name == "gaussian":
        return Gaussian()
    made: Model = import_module("sklearn.ensemble").IsolationForest(random_state=45)
    return made


def features(batch: pa.RecordBatch | pa.Table) -> Numbers:
    return np.column_stack([batch[name].to_numpy() for name in FEATURES])


def write_input(directory: Path) -> None:
    """Readings whose values go together, but for two of a thousand."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(45)
    load = rng.normal(0, 1, READINGS)
    means, slopes, noise = np.array([[60, 4, 1500, 900], [8, 0.5, 200, 150], [2, 0.1, 40, 30]])
    values = means + load[:, None] * slopes + rng.normal(0, 1, (READINGS, 4)) * noise
    broken = rng.random(READINGS) < 0.002
    values[broken] += rng.normal(0, 1, (broken.sum(), 4)) * slopes * 1.5
    columns = {"reading": np.arange(READINGS), "machine": rng.integers(0, MACHINES, READINGS)}
    pq.write_table(pa.table(columns | dict(zip(FEATURES, values.T, strict=True))), directory / "readings.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description="scores of readings by a model")
    parser.add_argument(
        "--directory", type=Path, default=Path("out/gallery/anomaly_scores"), help="of input and output"
    )
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the readings down, to watch")
    parser.add_argument("--model", choices=["gaussian", "isolation-forest"], default="gaussian")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())
    path = str(directory / "readings.parquet")
    first_day = features(pq.read_table(path).slice(0, FIRST_DAY))
    model = model_of(arguments.model).fit(first_day)
    strange = float(np.quantile(model.score_samples(first_day), 0.001))

    def scored(batch: pa.RecordBatch) -> pa.RecordBatch:
        scores = pa.array(model.score_samples(features(batch)))
        return pa.RecordBatch.from_arrays([batch["reading"], batch["machine"], scores], schema=SCORED)

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    measured = ThrottledSource(FileSource.for_parquet(path), arguments.rows_per_second)
    readings = env.from_source(measured, WatermarkStrategy.no_watermarks(), "readings").set_parallelism(1)
    scores = readings.rebalance().map_batches(scored, SCORED).name("scores")
    anomalies = scores.filter(col("score") < strange).name("strange ones")
    anomalies.sink_to(FileSink.for_parquet(str(directory / "anomalies"))).name("anomalies").uid("anomalies")
    env.execute("anomaly scores")


if __name__ == "__main__":
    main()
