"""Messages and rows for Flink's Protobuf format and ours, of ``orders2.proto`` and ``orders3.proto``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import json_format
from grpc_tools import protoc

from tidegate.connectors.formats.protobuf_type import MessageType

HERE = Path(__file__).parent
PACKAGES = {"orders2": "second", "orders3": "third"}
FIELDS = [
    "flag", "small", "large", "usmall", "ularge", "zigzag", "fixed", "sfixed", "ratio", "exact", "text", "raw", "kind", "item",
    "numbers", "words", "items", "counts", "by_id", "maybe", "maybe_text", "chosen_number", "chosen_text", "chosen_item", "kinds",
    "kind_of", "raws", "texts",
]  # fmt: skip
_ITEM: dict[str, Any] = {"name": "tea", "price": 2.5, "kinds": ["SELL", "UNKNOWN"], "at": {"seconds": "7", "nanos": 9}}
_MESSAGES: list[dict[str, Any]] = [
    {},
    {"flag": True, "small": -(2**31), "large": str(-(2**63)), "usmall": 2**32 - 1, "ularge": str(2**64 - 1), "zigzag": -3},
    {"fixed": str(2**63), "sfixed": -7, "ratio": 0.1, "exact": -1e300, "text": "Grüße 🐟", "raw": "AP+A", "kind": "SELL"},
    {"item": {}, "items": [{}, _ITEM], "numbers": [0, -1, 5], "words": ["", "a"], "counts": {"a": 1, "": 0}},
    {"by_id": {"-5": _ITEM, "6": {}}, "maybe": 0, "maybe_text": "", "chosen_number": 0, "kinds": ["BUY", "SELL"]},
    {"kind_of": {"x": "BUY", "y": "UNKNOWN"}, "raws": ["", "AQI="], "texts": {"true": "t", "false": ""}, "chosen_text": "c"},
    {"chosen_item": _ITEM, "ratio": "NaN", "exact": "-Infinity", "flag": False, "small": 0, "text": "", "kind": "UNKNOWN"},
]  # fmt: skip
_RAW = [
    b"\x68\x09",  # kind 9, which the enum does not have
    b"\xc8\x01\x09\xc8\x01\x01",  # kinds 9 and 1
    b"\xff\x7f\x01",  # a field that the message does not have
    b"\x0a",  # flag, as if it had a length: the end is missing
    b"\x5a\x02\xff\xfe",  # text that is no UTF-8
]
_TOLD_ITEM = ["tea", "2.5", ["SELL", "nothing"], ["7", "9"]]
_ROWS: list[dict[str, Any]] = [
    {},
    {"flag": True, "small": "-2147483648", "large": "-1", "usmall": "-1", "ularge": "-1", "zigzag": "-3", "fixed": "-2"},
    {"sfixed": "-7", "ratio": "0.1", "exact": "-1e300", "text": "Grüße 🐟", "raw": "00ff80", "kind": "SELL"},
    {"flag": False, "small": "0", "text": "", "kind": "UNKNOWN", "maybe": "0", "maybe_text": "", "chosen_number": "0"},
    {"item": [None, None, None, None], "items": [[None, None, None, None], _TOLD_ITEM, None], "numbers": ["1", None, "0"]},
    {"words": ["a", None, ""], "kinds": ["BUY", None, "nothing"], "raws": ["01", None, ""], "kind": "nothing"},
    {"counts": [["a", None]], "by_id": [["-5", _TOLD_ITEM]], "kind_of": [["x", None]], "texts": [[True, None]]},
    {"counts": [["", "3"]], "by_id": [["6", None]], "kind_of": [["y", "SELL"]], "texts": [[False, "t"]]},
    {"numbers": [], "words": [], "items": [], "counts": [], "by_id": [], "chosen_item": _TOLD_ITEM},
    {"chosen_number": "1", "chosen_text": "later wins"},
]  # fmt: skip


@cache
def message_type(file: str) -> MessageType:
    """``Order`` of ``orders2`` or ``orders3``, by what protoc says of the file."""
    with TemporaryDirectory() as directory:
        target = Path(directory, "orders.desc")
        arguments = [
            "",
            f"-I{HERE}",
            "--include_imports",
            f"--descriptor_set_out={target}",
            str(HERE / f"{file}.proto"),
        ]
        assert protoc.main(arguments) == 0
        return MessageType.from_file(str(target), f"tidegate.tests.{PACKAGES[file]}.Order")


def given(file: str) -> Iterator[bytes]:
    """Messages, as protobuf itself writes them."""
    made = message_type(file).message_class()
    for told in _MESSAGES:
        yield json_format.ParseDict(told, made(), ignore_unknown_fields=False).SerializeToString(deterministic=True)
    yield from _RAW


def cases() -> list[dict[str, Any]]:
    """Each message and each row, with each combination of the options."""
    rows = [[row.get(name) for name in FIELDS] for row in _ROWS]
    return [
        {
            "file": file,
            "class": f"io.tidegate.tests.{package}.Order",
            "defaults": defaults,
            "null_text": null_text,
            "enum_as_int": False,
            "given": [message.hex() for message in given(file)],
            "rows": rows,
        }
        for file, package in PACKAGES.items()
        for defaults, null_text in ((False, ""), (True, "null"))
    ]
