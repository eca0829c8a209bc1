"""The options that a job carries: they are sent with the job, stored for the next JobManager, and passed to every subtask.

Options by which processes prove what they are stay with the processes: a client and each process of a cluster reads its own.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from tidegate.model.masking import HIDDEN, is_sensitive

_OF_PROCESSES = ("security.", "tidegate.security.")
"""Prefixes of options of processes: TLS, Kerberos, users and tokens."""
_WITH_SECRETS_OF_PROCESSES = (
    "autoscaler.", "containerized.", "events.reporter.", "high-availability.", "historyserver.", "job.autoscaler.", "jobmanager.",
    "kubernetes.", "metrics.", "rest.", "sql-client.", "sql-gateway.", "taskmanager.", "traces.reporter.", "user.artifacts.", "web.", "yarn.",
)  # fmt: skip
"""Prefixes below which sensitive options are read by processes alone: reporters, deployments, servers."""


def may_travel(key: str) -> bool:
    """Returns whether a job may carry an option."""
    return not is_of_processes(key)


def is_of_processes(key: str) -> bool:
    """Returns whether an option concerns the authentication of processes, or holds a secret that no job needs."""
    return key.startswith(_OF_PROCESSES) or (key.startswith(_WITH_SECRETS_OF_PROCESSES) and is_sensitive(key))


def drop_of_processes(texts: MutableMapping[str, str]) -> tuple[str, ...]:
    """Removes options that a job may not carry; returns their keys, sorted."""
    keys = tuple(sorted(filter(is_of_processes, texts)))
    for key in keys:
        del texts[key]
    return keys


def hide(texts: MutableMapping[str, str]) -> None:
    """Replaces the secrets that a job carries for itself by ``HIDDEN``."""
    for key, text in texts.items():
        if text and is_sensitive(key):
            texts[key] = HIDDEN


def hidden_keys(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the keys whose secrets were hidden."""
    return tuple(key for key, text in sorted(texts.items()) if text == HIDDEN and is_sensitive(key))
