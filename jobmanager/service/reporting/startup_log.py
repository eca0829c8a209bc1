"""What a JobManager logs when it starts."""

from __future__ import annotations

import logging
import os

from tidegate.aio.listening import is_loopback
from tidegate.aio.settings import warnings_of_environment
from tidegate.aio.signing import signing_of
from tidegate.model.configuration import Configuration
from tidegate.model.options import CheckpointingOptions, JobManagerOptions, RestOptions, SecurityOptions
from tidegate.security.signing import SigningNow
from tidegate.wire.versions import PYTHON_VERSION, VERSION

_log = logging.getLogger("jobmanager")

NOTHING_SURVIVES = (
    "execution.checkpointing.dir is not set: checkpoints of jobs that set none are kept in this process's memory; they do not survive it, "
    "no job can start from them, and they fail when a state of a subtask exceeds 5 MiB"
)


def announce(configuration: Configuration) -> None:
    """Logs the version, options without effect or with deprecated names, and what will not survive this process."""
    _log.info("JobManager %s on Python %s, pid %d", VERSION, PYTHON_VERSION, os.getpid())
    for warning in (*configuration.warnings(), *warnings_of_environment()):
        _log.warning("configuration: %s", warning)
    if configuration.get(CheckpointingOptions.DIRECTORY) is None:
        _log.warning("%s", NOTHING_SURVIVES)
    for text in plain_tokens(configuration):
        _log.warning("%s", text)


def announced_signing(configuration: Configuration) -> SigningNow | None:
    """Returns ``signing_of`` a configuration, and logs whether programs must be signed, and with which key."""
    signing = signing_of(configuration)
    _log.info("%s", describe_signing(configuration, is_signed=signing is not None))
    return signing


def describe_signing(configuration: Configuration, *, is_signed: bool) -> str:
    """Returns whether programs must be signed, and with which key or why not, as one line of the log."""
    option, of = configuration.get, SecurityOptions
    if is_signed:
        path = option(of.SIGNING_KEY_FILE)
        key = f"a key of {path} ({of.SIGNING_KEY_FILE.key})" if path else "the key of this process's user"
        return f"programs must be signed with {key}: jobs with others are refused"
    if option(of.SIGNING_ENABLED) is False:
        return f"programs are not signed: {of.SIGNING_ENABLED.key} is false"
    key = (of.INTERNAL_ENABLED if option(of.INTERNAL_ENABLED) else of.INSECURE).key
    return f"programs are not signed: with {key} this takes a key for clients and processes ({of.SIGNING_KEY_FILE.key})"


def plain_tokens(configuration: Configuration) -> list[str]:
    """Returns warnings about tokens of users on connections without TLS."""
    option = configuration.get
    if not option(SecurityOptions.USERS_FILE):
        return []
    found = []
    if option(SecurityOptions.INSECURE) and not option(SecurityOptions.INTERNAL_ENABLED):
        found.append(
            f"there are users, but {SecurityOptions.INSECURE.key} is true: processes of the cluster cannot prove what they are, so whoever "
            "reaches a port may pretend to be a TaskManager or JobManager"
        )
        if not is_loopback(option(JobManagerOptions.BIND_HOST)):
            found.append("tokens of users travel by gRPC in plain text, and who reads them on the way may use them")
    if not option(SecurityOptions.REST_ENABLED) and not is_loopback(option(RestOptions.BIND_ADDRESS)):
        found.append(
            f"tokens of users travel by HTTP in plain text, and who reads them on the way may use them: set {SecurityOptions.REST_ENABLED.key}"
        )
    return found
