"""Epochs of ``to_spark`` for ``tidegate txn``: those that a checkpoint contains, with their rows."""

from __future__ import annotations

from tidegate.connectors.spark.sink import TAG
from tidegate.connectors.transactions import FunctionLog, Transaction
from tidegate.model.values import Committable


class SparkEpochs(FunctionLog):
    """Lists epochs of ``to_spark``, which only the job's own function can write."""

    system = "spark"

    def takes(self, committable: Committable) -> bool:
        return isinstance(committable, list) and len(committable) == 5 and committable[0] == TAG

    def described(self, committable: Committable) -> tuple[str, str, int | None]:
        _, application_id, number, rows, content = committable
        return f"{application_id}/{number}", f"{rows} rows", len(content)

    def refusal(self, transaction: Transaction) -> str:
        return (
            f"{transaction.name} is written by a function of the job, and only that function can write it: restore the job from the "
            "checkpoint, and it is written first"
        )
