"""Uploaded programs have a quota."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.jobmanager.programs.files import UPLOADED_TIMES, ProgramFiles
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
