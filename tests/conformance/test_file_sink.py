"""The file sink conforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.sink_suite import SinkConformance, Subject
from tidegate.connectors.base import Sink
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_transactions import FileTransactions
from tidegate.connectors.transactions import TransactionLog


class Lines(Subject):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def sink(self) -> Sink:
        return FileSink.for_text(str(self._directory))

    def visible(self) -> list[str]:
        files = [path for path in self._directory.glob("*") if not path.name.startswith(".")]
        return [line for path in files for line in path.read_text().splitlines()]

    def log(self) -> TransactionLog:
        return FileTransactions([str(self._directory)])


class TestFileSink(SinkConformance):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Subject:
        return Lines(tmp_path / "out")
