"""Injected faults as JSON: those of ``/faults``, and as entries among the exceptions of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.jobmanager.machines.views import JobView
from tidegate.jobmanager.rest.fault_service import FaultService, MadeFault, followed
from tidegate.model.ids import JobId
from tidegate.model.values import JsonObject

EXCEPTION_NAME = "tidegate.FaultOnPurpose"


def fault_item(fault: MadeFault, made: Sequence[MadeFault], jobs: Mapping[JobId, JobView]) -> JsonObject:
    return {
        "timestamp": fault.at_ms,
        "kind": fault.kind.value,
        "text": fault.text,
        "jobs": [
            {"id": job_id, "followed": followed(fault, made, jobs[job_id]) if job_id in jobs else []}
            for job_id in fault.job_ids
        ],
    }


def fault_entries(service: FaultService | None, job: JobView) -> list[JsonObject]:
    """Returns injected faults as entries of the exception history, oldest first."""
    made = [] if service is None else [fault for fault in service.made() if job.job_id in fault.job_ids]
    return [
        {
            "exceptionName": EXCEPTION_NAME,
            "stacktrace": "\n\t".join([f"{EXCEPTION_NAME}: {fault.text}", *followed(fault, made, job)]),
            "timestamp": fault.at_ms,
            "failureLabels": {},
        }
        for fault in made
    ]
