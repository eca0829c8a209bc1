"""The committer of a sink in a job that runs stage by stage: it starts when all writers have finished, and commits what they prepared.

    writers ─ votes at their ends, over the shuffle ─▶ committer ─ end of data ─▶ commit all of them, with retries

Laws: nothing is committed before all votes have arrived. A restarted committer gets the same votes, and committing is idempotent. Follows Flink's
``CommitterOperator.java``, with the parallelism of a ``GlobalCommitter``.
"""

from __future__ import annotations

from contextlib import ExitStack

import msgspec

from tidegate.connectors.base import Committer, Sink, SinkContext
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Committable
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.taskmanager.operators.operator import Ending, Operator, OperatorContext
from tidegate.taskmanager.operators.sinks.committing import Commits
from tidegate.taskmanager.operators.sinks.sink import sink_context_of
from tidegate.taskmanager.operators.user_code.boundary import user_error
from tidegate.taskmanager.state.ports import FrozenState


class CommitterOperator(Operator):
    """Commits what all writers of a sink prepared, once they have finished, in a job that runs stage by stage."""

    works_on = "records"

    def __init__(self, name: str, sink: Sink) -> None:
        self._name = name
        self._sink = sink
        self._votes: list[Committable] = []
        self._committer: Committer | None = None
        self._commits: Commits | None = None

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        self._context: SinkContext = sink_context_of(context)

    def open(self) -> None:
        try:
            self._committer = self._sink.make_committer(self._context)
        except Exception as error:
            raise user_error(self._name, error) from error
        self._commits = Commits(self._name, self._committer, self.context)

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        self._votes += [msgspec.msgpack.decode(vote) for vote in batch.values]

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        raise InvalidJob(
            f"operator '{self._name}' commits at the end of a job in BATCH mode, which has no checkpoints: run it in STREAMING mode for them"
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commits all votes, at the end of data."""
        assert self._commits is not None
        if self._votes:
            self._commits.commit(checkpoint_id, self._votes, self._all_committed)

    def ending(self) -> Ending:
        if self._commits is not None and self._commits.is_busy:
            return Ending.COMMITTING
        return Ending.UNCOMMITTED if self._votes else Ending.DONE

    def close(self) -> None:
        with ExitStack() as closing:
            if self._committer is not None:
                closing.callback(self._committer.close)

    def _all_committed(self, checkpoint_id: int) -> None:
        assert self._committer is not None
        votes, self._votes = self._votes, []
        try:
            self._committer.all_committed(votes)
        except Exception as error:
            raise user_error(self._name, error) from error
