"""Pending part files: hidden files that a checkpoint lists, and those that none does (see ``file_sink``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.fs as pafs

from tidegate.connectors.file_sink import FileCommitter, begun_in, job_mark, tombstone_of
from tidegate.connectors.files.file_system import directory_entries, is_local, resolve, storage_errors, sync_directory
from tidegate.connectors.transactions import Listed, Transaction, TransactionLog, TransactionStatus
from tidegate.model.errors import Misuse
from tidegate.model.values import Committable


class FileTransactions(TransactionLog):
    """Lists and ends the pending part files of sinks. ``directories``: searched besides those that checkpoints name."""

    system = "files"

    def __init__(self, directories: Sequence[str] = ()) -> None:
        self._directories = dict.fromkeys(directories)

    def takes(self, committable: Committable) -> bool:
        return (
            isinstance(committable, list)
            and len(committable) == 4
            and all(isinstance(part, str) for part in committable[:3])
            and committable[1].endswith(".inprogress")
        )

    def transactions(self, listed: Sequence[Listed]) -> list[Transaction]:
        found = []
        for one in listed:
            directory, hidden, final, size = one.committable
            self._directories[directory] = None
            begun = begun_in(hidden)
            found.append(
                Transaction(
                    system=self.system,
                    name=hidden,
                    place=directory,
                    operator=one.operator,
                    subtask=begun[1] if begun else -1,
                    checkpoint_id=one.checkpoint_id,
                    status=_status(directory, hidden, final, size),
                    listed=True,
                    size_bytes=size,
                    committable=one.committable,
                )
            )
        return found

    def unlisted(self, known: frozenset[str], operators: Mapping[tuple[str, str], str]) -> list[Transaction]:
        marks = {job_mark(job_id, operator_id): title for (job_id, operator_id), title in operators.items()}
        found = []
        for directory in self._directories:
            filesystem, root = resolve(directory)
            with storage_errors("list", root):
                infos = directory_entries(filesystem, root)
            for info in sorted(infos, key=lambda info: str(info.base_name)):
                begun = begun_in(info.base_name)
                if begun is None or info.base_name in known:
                    continue
                mark, subtask, since = begun
                found.append(
                    Transaction(
                        system=self.system,
                        name=info.base_name,
                        place=directory,
                        operator=marks.get(mark, ""),
                        subtask=subtask,
                        checkpoint_id=since + 1,
                        status=TransactionStatus.PENDING,
                        listed=False,
                        size_bytes=info.size,
                    )
                )
        return found

    def commit(self, transaction: Transaction) -> None:
        if transaction.committable is None:
            raise Misuse(
                f"none of the given checkpoints lists {transaction.name}, so it may be incomplete; give the checkpoint that "
                "it belongs to, or abort it"
            )
        FileCommitter(transaction.place).commit([transaction.committable])

    def abort(self, transaction: Transaction) -> None:
        filesystem, root = resolve(transaction.place)
        hidden = f"{root}/{transaction.name}"
        with storage_errors("abort", hidden):
            if transaction.committable is not None:
                with filesystem.open_output_stream(tombstone_of(root, transaction.committable[2])):
                    pass
            if filesystem.get_file_info(hidden).type == pafs.FileType.File:
                filesystem.delete_file(hidden)
            if is_local(filesystem):
                sync_directory(root)


def _status(directory: str, hidden: str, final: str, size: int) -> TransactionStatus:
    filesystem, root = resolve(directory)
    with storage_errors("look for", f"{root}/{final}"):
        done, waiting, given_up = filesystem.get_file_info(
            [f"{root}/{final}", f"{root}/{hidden}", tombstone_of(root, final)]
        )
    if done.type == pafs.FileType.File and done.size == size:
        return TransactionStatus.COMMITTED
    if waiting.type == pafs.FileType.File:
        return TransactionStatus.PENDING
    return TransactionStatus.ABORTED if given_up.type == pafs.FileType.File else TransactionStatus.LOST
