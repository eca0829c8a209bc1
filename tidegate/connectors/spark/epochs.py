"""What ``tidegate txn`` tells of the epochs of ``to_spark``: those that a checkpoint holds, with their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.connectors.spark.sink import TAG
from tidegate.connectors.transactions import Listed, Transaction, TransactionLog, TransactionStatus
from tidegate.model.errors import Misuse
from tidegate.model.values import Committable


class SparkEpochs(TransactionLog):
    """Only the job's own function knows where they go."""

    system = "spark"

    def takes(self, committable: Committable) -> bool:
        return isinstance(committable, list) and len(committable) == 5 and committable[0] == TAG

    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        return [
            Transaction(
                system=self.system,
                name=f"{one.committable[1]}/{one.committable[2]}",
                place=f"{one.committable[3]} rows",
                operator=one.operator,
                subtask=-1,
                checkpoint_id=one.checkpoint_id,
                status=TransactionStatus.UNKNOWN,
                listed=True,
                size_bytes=len(one.committable[4]),
                committable=one.committable,
            )
            for one in listed
        ]

    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        return []

    def refusal(self, transaction: Transaction) -> str:
        return (
            f"{transaction.name} is written by a function of the job, and only that function can write it: restore the job from the "
            "checkpoint, and it is written first"
        )

    def commit(self, transaction: Transaction) -> None:
        raise Misuse(self.refusal(transaction))

    def abort(self, transaction: Transaction) -> None:
        raise Misuse(self.refusal(transaction))
