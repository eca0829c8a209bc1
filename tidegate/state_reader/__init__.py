"""Opens any checkpoint or savepoint as pyarrow tables, without the job's classes.

    from tidegate.state_reader import open_checkpoint
    checkpoint = open_checkpoint("/data/checkpoints/<job id>/chk-7")
    for operator in checkpoint.operators:
        print(operator.title, [state.name for state in operator.states])
    table = checkpoint.table("count-per-word", "total")

It reads what docs/state-format.md describes, and only that: nothing here imports a TaskManager or runs what is pickled.
"""

from tidegate.state_reader.checkpoint import Checkpoint, Operator, State, open_checkpoint
from tidegate.state_reader.difference import StateDifference, compare
from tidegate.state_reader.pickles import Pickled, plain_value, type_name

__all__ = [
    "Checkpoint",
    "Operator",
    "Pickled",
    "State",
    "StateDifference",
    "compare",
    "open_checkpoint",
    "plain_value",
    "type_name",
]
