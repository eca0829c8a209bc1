"""The role that each gRPC method requires; ``None``: only processes of the cluster may call it."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.security.users import Required, Role

_CLIENT, _JOB_MANAGER = "tidegate.pb.JobManagerClientService", "tidegate.pb.JobManagerService"

RPC_ROLES: Mapping[str, Required] = {
    f"{_CLIENT}/SubmitJob": Role.DEPLOY,
    f"{_CLIENT}/CancelJob": Role.OPERATE,
    f"{_CLIENT}/RescaleJob": Role.OPERATE,
    f"{_CLIENT}/ListJobs": Role.VIEW,
    f"{_CLIENT}/WatchJob": Role.VIEW,
    f"{_CLIENT}/ListCheckpoints": Role.VIEW,
    f"{_CLIENT}/TriggerSavepoint": Role.OPERATE,
    f"{_CLIENT}/TriggerCheckpoint": Role.OPERATE,
    f"{_CLIENT}/StopWithSavepoint": Role.OPERATE,
    f"{_CLIENT}/DisposeSavepoint": Role.OPERATE,
    f"{_CLIENT}/GetCluster": Role.VIEW,
    f"{_CLIENT}/Shutdown": Role.DEPLOY,
    f"{_CLIENT}/PutBlob": Role.DEPLOY,
    f"{_CLIENT}/GetJobGraph": Role.DEPLOY,
    f"{_CLIENT}/GetKvStateLocation": Role.DATA,
    f"{_JOB_MANAGER}/RegisterTaskManager": None,
    f"{_JOB_MANAGER}/Heartbeat": None,
    f"{_JOB_MANAGER}/UpdateTaskState": None,
    f"{_JOB_MANAGER}/SlotFreed": None,
    f"{_JOB_MANAGER}/AcknowledgeCheckpoint": None,
    f"{_JOB_MANAGER}/DeclineCheckpoint": None,
    f"{_JOB_MANAGER}/EndOfData": None,
    f"{_JOB_MANAGER}/SendOperatorEvent": None,
    f"{_JOB_MANAGER}/GetBlob": Role.DEPLOY,  # `tidegate upgrade` takes the program of a job from there
    f"{_JOB_MANAGER}/AlignWatermark": None,
    f"{_JOB_MANAGER}/RegisterKvState": None,
    "tidegate.pb.TaskManager/AllocateSlot": None,
    "tidegate.pb.TaskManager/FreeSlot": None,
    "tidegate.pb.TaskManager/SubmitTask": None,
    "tidegate.pb.TaskManager/CancelTask": None,
    "tidegate.pb.TaskManager/ConnectTask": None,
    "tidegate.pb.TaskManager/TriggerCheckpoint": None,
    "tidegate.pb.TaskManager/ConfirmCheckpoint": None,
    "tidegate.pb.TaskManager/AbortCheckpoint": None,
    "tidegate.pb.TaskManager/SendOperatorEvent": None,
    "tidegate.pb.TaskManagerInspection/ListLogs": None,  # users ask the JobManager's REST API for these
    "tidegate.pb.TaskManagerInspection/ReadLog": None,
    "tidegate.pb.TaskManagerInspection/DumpThreads": None,
    "tidegate.pb.TaskManagerInspection/SampleStacks": None,
    "tidegate.pb.ExecutorHost/DeclareWorkers": None,
    "tidegate.pb.TaskManagerKvState/GetKvState": Role.DATA,
    "tidegate.pb.TaskManagerFaults/InjectFault": None,
}

READING = frozenset(
    f"{_CLIENT}/{name}"
    for name in ("ListJobs", "WatchJob", "ListCheckpoints", "GetCluster", "GetJobGraph", "GetKvStateLocation")
) | {f"{_JOB_MANAGER}/GetBlob", "tidegate.pb.TaskManagerKvState/GetKvState"}
"""The methods that change nothing."""
