"""Each call by gRPC has exactly one role, in one table."""

from __future__ import annotations

from tidegate.pb import common_pb2, jobmanager_pb2, subtask_pb2, taskmanager_pb2
from tidegate.security.rpc_roles import READING, RPC_ROLES
from tidegate.security.users import Role


def declared() -> set[str]:
    files = (common_pb2, jobmanager_pb2, subtask_pb2, taskmanager_pb2)
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    return {f"{service.full_name}/{method.name}" for service in services for method in service.methods}


def test_every_call_has_a_role_and_there_is_none_of_a_call_that_is_gone() -> None:
    assert set(RPC_ROLES) == declared()


def test_what_reads_is_for_users() -> None:
    assert all(RPC_ROLES[method] is not None for method in READING)


def test_only_who_may_deploy_gives_a_cluster_programs_or_takes_them() -> None:
    deploys = {method.rpartition("/")[2] for method, role in RPC_ROLES.items() if role is Role.DEPLOY}
    assert deploys == {"SubmitJob", "PutBlob", "GetBlob", "GetJobGraph", "Shutdown"}
