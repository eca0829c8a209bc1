"""Queryable state: reads the state of running jobs (Flink: ``flink-queryable-state-client-java``).

QueryableStateClient("localhost", 6123).get_kv_states(job_id, "counts", ["a", "b"]).values()
"""

from tidegate.queryablestate.client import KvStateValues, QueryableStateClient

__all__ = ["KvStateValues", "QueryableStateClient"]
