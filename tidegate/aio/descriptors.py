"""Divides the file descriptors of a process, so that connections of clients leave enough for checkpoints, peers and logs.

of the soft limit (``ulimit -n``):   a half for gRPC connections from outside    a quarter for HTTP    the rest is kept
"""

from __future__ import annotations

import resource

_AT_LEAST = 8
_GRPC_MOST, _HTTP_MOST = 16_384, 1_024
"""The most gRPC and HTTP connections of a process. Chosen, not measured: more TaskManagers than a JobManager serves, and more browsers than show one
cluster."""


def grpc_connections() -> int:
    """Returns how many gRPC connections a server of this process accepts at once."""
    return _part(2, _GRPC_MOST)


def http_connections() -> int:
    """Returns how many HTTP connections a server of this process accepts at once."""
    return _part(4, _HTTP_MOST)


def _part(of: int, most: int) -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else min(most, max(_AT_LEAST, soft // of))
