"""The protobuf generator: fresh code passes, and what is missing, stale or left over is named."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCHEMA = """\
syntax = "proto3";
package tidegate.pb;
message Ping { string text = 1; }
"""
SERVICE = """\
syntax = "proto3";
package tidegate.pb;
import "tidegate/pb/ping.proto";
service Echo { rpc Say(Ping) returns (Ping); }
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    source = Path(__file__).parents[3] / "proto" / "generate.py"
    spec = importlib.util.spec_from_file_location("tidegate_proto_generate", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    for folder in ("proto/tidegate/pb", "tidegate/pb"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proto/tidegate/pb/ping.proto").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "proto/tidegate/pb/echo.proto").write_text(SERVICE, encoding="utf-8")
    return module


def test_written_code_is_fresh_and_a_schema_without_services_has_no_grpc_half(tool: ModuleType, tmp_path: Path) -> None:
    assert tool.main(["--check"]) == 1
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0
    assert sorted(path.name for path in (tmp_path / "tidegate/pb").iterdir()) == [
        *("echo_pb2.py", "echo_pb2.pyi", "echo_pb2_grpc.py", "echo_pb2_grpc.pyi"),
        *("ping_pb2.py", "ping_pb2.pyi"),
    ]
    assert "from tidegate.pb import ping_pb2" in (tmp_path / "tidegate/pb/echo_pb2.py").read_text(encoding="utf-8")


def test_stale_and_left_over_files_are_named_and_mended(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.main([])
    stale, left_over = tmp_path / "tidegate/pb/ping_pb2.py", tmp_path / "tidegate/pb/gone_pb2.py"
    stale.write_text("# edited by hand\n", encoding="utf-8")
    left_over.write_text("", encoding="utf-8")
    capsys.readouterr()
    assert tool.main(["--check"]) == 1
    assert [line.split("/")[-1] for line in capsys.readouterr().err.splitlines()[1:]] == ["gone_pb2.py", "ping_pb2.py"]
    assert tool.main([]) == 0
    assert not left_over.exists()
    assert tool.main(["--check"]) == 0


def test_a_bad_schema_is_refused_with_protocs_words(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "proto/tidegate/pb/bad.proto").write_text("message {", encoding="utf-8")
    assert tool.main([]) == 2
    assert "bad.proto" in capsys.readouterr().err
    assert sys.modules.get("tidegate_proto_generate") is None
