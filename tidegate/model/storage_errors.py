"""Classification of failed system calls on storage: whether the cause persists, and the reason."""

from __future__ import annotations

import errno

from tidegate.model.errors import StorageError, StorageUnusable

_LASTING = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM,
        errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
    }
)  # fmt: skip


def kind_of(error: BaseException) -> type[StorageError]:
    """Returns ``StorageUnusable`` for errors whose cause persists until a person acts, else ``StorageError``."""
    return StorageUnusable if isinstance(error, OSError) and error.errno in _LASTING else StorageError


def reason_of(error: OSError) -> str:
    """Returns the plain reason of a failed system call, without the path."""
    return error.strerror or str(error) or type(error).__name__
