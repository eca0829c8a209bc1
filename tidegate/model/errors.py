"""The error tree. Each error has a stable code, a domain and a retry hint, and crosses the wire both ways.

    TidegateError
    ├── UserError            the user's job, arguments or data       (never retried by us unless a restart strategy says so)
    │   ├── InvalidJob · UserFunctionError · SchemaMismatch · NotSerializable
    │   ├── ConfigurationError
    │   ├── NotAuthenticated · NotPermitted · NotSigned
    │   └── Misuse                                                   (the CLI exits with 2)
    ├── ExternalError        the world around us: disks, sockets, Spark, brokers
    │   ├── Unreachable · NoResourceAvailable · StorageError (StorageUnusable · StateTooLarge · CheckpointFilesMissing) · CorruptData
    │   ├── CorruptFrame (UnknownEvent) · SubtaskLost · StateNotServed
    │   └── VersionMismatch
    └── InternalError        our own mistake, or a message that came too late
        └── Fenced · UnknownAttempt · UnknownJob · IllegalTransition

A message says what was wrong, where, and what to do; nothing ever parses it: code and domain are for programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from tidegate.model.masking import SECRETS
from tidegate.model.values import Record

ON_DAMAGE = "restore from another checkpoint or savepoint"
"""The end of messages about a checkpoint that cannot be read: what to do."""

Domain = Literal["user", "external", "internal"]


class TidegateError(Exception):
    """The root of all errors that tidegate raises on purpose."""

    code: ClassVar[str] = "error"
    domain: ClassVar[Domain] = "internal"
    retriable: ClassVar[bool] = True
    """Whether a restart of the job may help; ``False`` skips the restart strategy (Flink: NonRecoverableError)."""
    is_lasting: ClassVar[bool] = False
    """Whether the cause persists until a person acts, so that a retry is useless."""

    def __init__(self, message: str, *, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        """More for the log, such as a traceback; empty when there is none."""
        self.kept_failure = ""
        """Id of the failure that was kept for `tidegate replay`; empty: none was."""

    def _render_traceback_(self) -> list[str]:
        """Returns the lines that IPython prints instead of its own traceback; IPython calls this method of exceptions."""
        from tidegate.model.cell_traceback import cell_lines

        return cell_lines(self, self.message)


class UserError(TidegateError):
    """The user's job, arguments or data are wrong."""

    code, domain, retriable, is_lasting = "user", "user", False, True


class InvalidJob(UserError):
    """The program cannot be run."""

    code = "invalid-job"


class DuplicateJob(InvalidJob):
    """A job with this id was accepted before."""

    code = "duplicate-job"


class UserFunctionError(UserError):
    """A user function raised an exception; ``details`` is its traceback. Retried, as in Flink: the data may differ next time."""

    code, retriable = "user-function", True
    inputs: tuple[Record, ...] = ()
    """The record for which the function was called, or both of a join, if known. What is shown of it is decided where the failure is reported
    (``tidegate.failure.show-record``)."""
    inputs_words: str = ""
    """A text with a ``{}`` for each of ``inputs``, where these are not records but, for instance, the key of a timer."""


class SchemaMismatch(UserError):
    """Records, columns or files do not have the types that they were declared with."""

    code, retriable = "schema-mismatch", False


class NotSerializable(UserError):
    """A function or object cannot be pickled."""

    code = "not-serializable"


class ConfigurationError(UserError):
    """An option has an invalid value."""

    code = "configuration"


class NotAuthenticated(UserError):
    """The caller is not authenticated."""

    code = "not-authenticated"


class NotPermitted(UserError):
    """The caller's role does not permit this."""

    code = "not-permitted"


class NotSigned(UserError):
    """A program or checkpoint lacks the signature that is required to open it."""

    code = "not-signed"


class Misuse(UserError):
    """The command line was used wrongly; the CLI exits with 2."""

    code = "misuse"


class ExternalError(TidegateError):
    """Something outside of tidegate failed: a disk, a socket, Spark, a broker."""

    code, domain = "external", "external"


class Unreachable(ExternalError):
    """A process does not answer."""

    code = "unreachable"


class NoResourceAvailable(ExternalError):
    """There are not enough slots for the job."""

    code = "no-resource-available"


class StorageError(ExternalError):
    """A file could not be read or written."""

    code = "storage"


class StorageUnusable(StorageError):
    """The disk is full or read-only, or access is denied. Retried, as in Flink: the cause may be removed."""

    code, is_lasting = "storage-unusable", True


class StateTooLarge(StorageError):
    """State is larger than the JobManager's memory can hold, and there is no checkpoint directory."""

    code, is_lasting = "state-too-large", True


class CheckpointFilesMissing(StorageError):
    """The directory of a checkpoint in progress, or a file that it wrote or builds on, was removed by another process or a person. The next checkpoint
    has directories of its own and builds on nothing, and a restart of the job would need what is missing, so it does not count as a failure of the
    job."""

    code = "checkpoint-files-missing"


class CorruptData(ExternalError):
    """A file has invalid content: a manifest, a state segment, an input file. The message names the file."""

    code, retriable = "corrupt-data", False


class CorruptFrame(ExternalError):
    """A message on a connection cannot be decoded."""

    code = "corrupt-frame"


class UnknownEvent(CorruptFrame):
    """A user event whose name or type was not registered in this process."""

    code = "unknown-event"


class SubtaskLost(ExternalError):
    """A subtask's process, or its TaskManager, ended without a report."""

    code = "subtask-lost"


class StateNotServed(ExternalError):
    """Queried state is not available now: no subtask serves it, or those that do are overloaded."""

    code = "state-not-served"


class OutputLost(ExternalError):
    """The output of a finished subtask is lost, so that it must run again."""

    code = "output-lost"


class VersionMismatch(ExternalError):
    """Two processes have incompatible versions."""

    code, retriable = "version-mismatch", False


class InternalError(TidegateError):
    """A mistake in tidegate, or a message that came too late."""

    code = "internal"


class Fenced(InternalError):
    """The message belongs to another generation of the JobManager or to an attempt that has ended."""

    code = "fenced"


class UnknownAttempt(InternalError):
    """No such execution attempt runs here."""

    code = "unknown-attempt"


class UnknownJob(InternalError):
    """There is no job with this id."""

    code, domain = "unknown-job", "user"


class IllegalTransition(InternalError):
    """A state machine does not have the requested transition."""

    code = "illegal-transition"


_BLAMED = "tidegate_record"


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error as a value, for machines, journals and the wire. ``origin``: where it happened (such as ``map (2/4) on tm-1``), empty when unknown."""

    code: str
    domain: Domain
    message: str
    retriable: bool = True
    details: str = ""
    origin: str = ""
    kept_failure: str = ""
    """Id of the failure that was kept for `tidegate replay`; empty: none was."""

    def __post_init__(self) -> None:
        """Masks secrets that an exception may repeat of a URI or of an option."""
        object.__setattr__(self, "message", SECRETS.masked(self.message))
        object.__setattr__(self, "details", SECRETS.masked(self.details))

    @property
    def is_lasting(self) -> bool:
        """Returns whether the cause persists until a person acts; for an unknown code, by its domain."""
        kind = _by_code().get(self.code)
        return self.domain == "user" if kind is None else kind.is_lasting

    @staticmethod
    def of(error: BaseException, origin: str = "") -> ErrorInfo:
        """Converts any exception to a value; one that is not a ``TidegateError`` becomes ``internal``."""
        if isinstance(error, TidegateError):
            return ErrorInfo(
                error.code, error.domain, error.message, error.retriable, error.details, origin, error.kept_failure
            )
        return ErrorInfo("internal", "internal", f"{type(error).__name__}: {error}", origin=origin)

    def to_exception(self) -> TidegateError:
        """Converts it to the exception with this code; an unknown code gives the root of its domain."""
        roots: dict[str, type[TidegateError]] = {"user": UserError, "external": ExternalError}
        kind = _by_code().get(self.code, roots.get(self.domain, InternalError))
        return kind(self.message, details=self.details)


def blame(error: Exception, record: Record) -> None:
    """Attaches the record for which a user function raised an exception."""
    error.__dict__[_BLAMED] = record


def blamed(error: Exception) -> tuple[Record, ...]:
    """Returns the attached record; empty if there is none."""
    return (error.__dict__[_BLAMED],) if _BLAMED in error.__dict__ else ()


def _by_code() -> dict[str, type[TidegateError]]:
    found: dict[str, type[TidegateError]] = {}
    open_kinds: list[type[TidegateError]] = [TidegateError]
    while open_kinds:
        kind = open_kinds.pop()
        found[kind.code] = kind
        open_kinds.extend(kind.__subclasses__())
    return found
