"""Uploaded programs have a quota, and zips unpack to what is no bomb."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.jobmanager.programs.files import RATIO_FROM_BYTES, UPLOADED_TIMES, ProgramFiles
from tidegate.model.errors import Misuse

TEXT = b"print(1)  " * 10


def test_programs_may_take_so_much_in_all_and_deleting_makes_place(tmp_path: Path) -> None:
    files = ProgramFiles(str(tmp_path), str(tmp_path), len(TEXT))

    def upload() -> str:
        incoming = files.begin()
        incoming.write_bytes(TEXT)
        try:
            return files.adopt(incoming, "job.py").program_id
        finally:
            files.drop(incoming)

    first, *_ = [upload() for _ in range(UPLOADED_TIMES)]
    with pytest.raises(Misuse, match="delete some"):
        upload()
    assert len(list(tmp_path.iterdir())) == UPLOADED_TIMES, "what was refused is gone"
    files.remove(first)
    upload()


def zipped(method: int = zipfile.ZIP_DEFLATED, size: int = 10, name: str = "data.txt") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("job.py", "print(1)")
        archive.writestr(name, bytes(size))
    return buffer.getvalue()


def unpacked(directory: Path, content: bytes) -> list[str]:
    files = ProgramFiles(str(directory / "programs"), str(directory), 100 << 20)
    incoming, into = files.begin(), directory / "unpacked"
    into.mkdir()
    incoming.write_bytes(content)
    files.unpack(files.adopt(incoming, "job.zip"), None, into)
    return sorted(path.name for path in into.iterdir())


def test_a_zip_that_unpacks_to_too_many_times_its_own_size_is_refused(tmp_path: Path) -> None:
    assert unpacked(tmp_path, zipped(size=RATIO_FROM_BYTES // 2)) == ["data.txt", "job.py"], "small ones are no bombs"
    incoming = (files := ProgramFiles(str(tmp_path), str(tmp_path), 100 << 20)).begin()
    incoming.write_bytes(zipped(size=RATIO_FROM_BYTES + 1))
    with pytest.raises(
        Misuse, match=r"unpacks to 16777\d+ bytes, \d+ times its own size; at most 100 times are allowed"
    ):
        files.adopt(incoming, "job.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_that_python_unpacks_at_once_are_refused(tmp_path: Path, method: int) -> None:
    with pytest.raises(Misuse, match=f"compressed by method {method}; only stored and deflated members can be read"):
        unpacked(tmp_path, zipped(method))


def _without_names(content: bytes) -> bytes:
    return content.replace(b"data.txt", b"\0ata.txt")


def _damaged(content: bytes) -> bytes:
    at = content.index(b"data.txt") + len(b"data.txt")
    return content[:at] + bytes([content[at] ^ 7]) + content[at + 1 :]


@pytest.mark.parametrize("change", [_without_names, _damaged])
def test_a_zip_that_is_broken_inside_is_refused_with_a_reason(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Misuse, match="the zip file cannot be unpacked"):
        unpacked(tmp_path, change(zipped(size=5000)))
