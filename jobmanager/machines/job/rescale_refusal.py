"""Explains why a job cannot be rescaled as requested, before anything of the request is stored."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.jobmanager.machines.events import RescaleRequested
from tidegate.jobmanager.machines.job.job_master import JobMaster
from tidegate.model.rescaling.bounds import fit, problems_of, slots_of


def refusal_of(job: JobMaster, event: RescaleRequested, may_come: Callable[[int], bool]) -> str:
    """Returns why the job cannot be rescaled as requested; empty when it can.

    ``may_come``: tells whether the cluster could have so many slots, including TaskManagers that would be started.
    """
    graph, state = job.executions.graph, job.lifecycle.state
    if state.is_terminal:
        return f"job {job.job_id} is {state.value} already"
    if graph.has_blocking_exchanges:
        return (
            "a job in BATCH mode cannot be rescaled: its stages run one after another, each in the slots that are free"
        )
    if not job.takes_checkpoints:
        return (
            "a job that takes no checkpoints cannot be rescaled, since its state would be lost: set "
            "execution.checkpointing.interval"
        )
    problems = problems_of(graph, event.bounds)
    if problems:
        return "\n".join(problems)
    if job.rescaling.is_adaptive:
        return ""
    highest = fit(graph, event.bounds, sum(both.upper for both in event.bounds.values()))
    assert highest is not None, "bounds without a problem fit in slots for every subtask"
    needed = slots_of(graph, highest)
    if needed <= job.slots or may_come(needed):
        return ""
    return f"the new parallelism needs {needed} slots, and the job can have {job.slots}; start a TaskManager, or ask for a lower parallelism"
