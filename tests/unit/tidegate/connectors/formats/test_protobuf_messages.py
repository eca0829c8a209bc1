"""Protobuf messages as rows: types, options, and what is refused. Flink's own behaviour is in ``tests/contract/protobuf``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from tests.contract.protobuf.cases import FIELDS, message_type
from tidegate.common.row import Row
from tidegate.common.typeinfo import Types
from tidegate.connectors.formats.messages import PoisonRecord, deserializer_of, serializer_of
from tidegate.connectors.formats.protobuf_messages import ProtobufMessages, ProtobufRows
from tidegate.connectors.formats.protobuf_type import MessageType
from tidegate.datastream.formats.protobuf import ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema
from tidegate.model.errors import InvalidJob, UserError
from tidegate.records.record_codec import decode, encode

ORDER = message_type("orders3")
Order: Any = ORDER.message_class()


def one(name: str, wanted: Any, **fields: Any) -> Any:
    """What a message with these fields has in one field, read as this type."""
    schema = ProtobufRowDeserializationSchema(Order, type_info=Types.ROW_NAMED([name], [wanted]))
    (row,) = schema.decode([Order(**fields).SerializeToString()]).to_pylist()
    return row[name]


def test_all_fields_are_read_by_default_and_those_of_a_type_by_name() -> None:
    every = ProtobufRowDeserializationSchema(Order)
    assert every.get_produced_type().arrow_schema().names == FIELDS
    some = ProtobufRowDeserializationSchema(
        Order, type_info=Types.ROW_NAMED(["text", "small"], [Types.STRING(), Types.INT()])
    )
    data = some.decode([Order(small=3, text="a").SerializeToString(), b""])
    assert [tuple(row) for row in decode(some.get_produced_type(), data)] == [("a", 3), ("", 0)]


def test_an_unsigned_number_is_javas_unless_its_type_is_larger() -> None:
    assert one("usmall", Types.INT(), usmall=2**32 - 1) == -1
    assert one("usmall", Types.LONG(), usmall=2**32 - 1) == 2**32 - 1
    assert one("ularge", Types.LONG(), ularge=2**64 - 1) == -1


def test_an_enum_is_its_name_or_its_number() -> None:
    assert one("kind", Types.STRING(), kind=5) == "SELL"
    assert one("kind", Types.INT(), kind=5) == 5
    row = Types.ROW_NAMED(["kind", "kinds"], [Types.INT(), Types.LIST(Types.INT())])
    (written,) = ProtobufMessages(ORDER).encode(encode(row, [Row(5, [1, 77])]), row)
    assert Order.FromString(written) == Order(kind=5, kinds=[1, 0])


def test_rows_go_by_the_names_of_their_type_or_of_the_stream() -> None:
    stream = Types.TUPLE([Types.STRING(), Types.INT()])
    data = encode(stream, [("a", 3)])
    named = ProtobufRowSerializationSchema(
        Order, type_info=Types.ROW_NAMED(["text", "small"], [Types.STRING(), Types.INT()])
    )
    assert [Order.FromString(one) for one in named.encode(data, stream)] == [Order(text="a", small=3)]
    with pytest.raises(InvalidJob, match="'f0' is none of its fields"):
        ProtobufRowSerializationSchema(Order).encode(data, stream)
    short = ProtobufRowSerializationSchema(Order, type_info=Types.ROW_NAMED(["text"], [Types.STRING()]))
    with pytest.raises(InvalidJob, match="the stream"):
        short.encode(data, stream)


def test_a_subtask_needs_no_generated_module_and_not_the_dsl() -> None:
    reader, writer = ProtobufRowDeserializationSchema(Order), ProtobufRowSerializationSchema(Order)
    shipped_reader, shipped_writer = cloudpickle.loads(cloudpickle.dumps((reader, writer)))
    assert (type(shipped_reader), type(shipped_writer)) == (ProtobufRows, ProtobufMessages)
    assert deserializer_of(shipped_reader) is shipped_reader
    assert serializer_of(shipped_writer) is shipped_writer
    content = Order(text="a", counts={"k": 1}).SerializeToString()
    data = shipped_reader.decode(pa.array([content]))
    kind = shipped_reader.get_produced_type()
    assert Order.FromString(shipped_writer.encode(data, kind)[0]) == Order(
        text="a", counts={"k": 1}, maybe=0, maybe_text="", chosen_text=""
    ), "Flink's format has no presence of simple fields in proto3 either"


def test_what_is_no_message_is_poison_by_its_place() -> None:
    schema = ProtobufRowDeserializationSchema(Order, ignore_parse_errors=True)
    assert schema.skips_poison
    for poison, words in ((b"\x0a", "Error parsing"), (None, "has no value")):
        with pytest.raises(PoisonRecord, match=words) as raised:
            schema.decode([b"", poison])
        assert raised.value.index == 1


def test_a_type_that_does_not_fit_is_refused_with_each_field() -> None:
    wrong = Types.ROW_NAMED(
        ["smal", "text", "numbers", "item", "counts", "flag"],
        [Types.INT(), Types.LONG(), Types.INT(), Types.STRING(), Types.LIST(Types.INT()), Types.LIST(Types.BOOLEAN())],
    )
    with pytest.raises(InvalidJob) as raised:
        ProtobufRowDeserializationSchema(Order, type_info=wrong)
    for part in (
        "'smal' is none of its fields (flag, small,",
        "'text' is a text, and no int64",
        "'numbers' is repeated: a LIST",
        "'item' is a message: a ROW",
        "'counts' is a map",
        "'flag' is not repeated",
    ):
        assert part in raised.value.message
    inner = Types.ROW_NAMED(["item"], [Types.ROW_NAMED(["nam"], [Types.STRING()])])
    with pytest.raises(InvalidJob, match=r"'item\.nam' is none of its fields"):
        ProtobufRowDeserializationSchema(Order, type_info=inner)


def test_a_value_that_does_not_fit_is_named() -> None:
    kind = Types.ROW_NAMED(["usmall"], [Types.LONG()])
    with pytest.raises(UserError, match="'usmall' of tidegate.tests.third.Order cannot be 8589934592"):
        ProtobufMessages(ORDER).encode(encode(kind, [Row(2**33)]), kind)


def tree(*, required: bool = False) -> MessageType:
    """A message that contains itself, or one with a field that must be there."""
    label = (
        descriptor_pb2.FieldDescriptorProto.LABEL_REQUIRED
        if required
        else descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    )
    file = descriptor_pb2.FileDescriptorProto(name="tree.proto", package="t", syntax="proto2")
    message = file.message_type.add(name="Tree")
    message.field.add(name="id", number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_INT32, label=label)
    if not required:
        kind = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
        message.field.add(name="below", number=2, type=kind, type_name=".t.Tree", label=label)
    files = descriptor_pb2.FileDescriptorSet(file=[file])
    return MessageType("t.Tree", files.SerializeToString())


def test_a_message_that_contains_itself_needs_a_type() -> None:
    message = tree()
    with pytest.raises(InvalidJob, match="contains itself: give a type_info"):
        ProtobufRowDeserializationSchema(message.message_class())
    inner = Types.ROW_NAMED(["id"], [Types.INT()])
    schema = ProtobufRows(message, Types.ROW_NAMED(["id", "below"], [Types.INT(), inner]))
    made: Any = message.message_class()
    deep = made(id=1, below=made(id=2, below=made(id=3)))
    assert schema.decode([deep.SerializeToString()]).to_pylist() == [{"id": 1, "below": {"id": 2}}]


def test_a_required_field_that_is_null_is_an_error() -> None:
    kind = Types.ROW_NAMED(["id"], [Types.INT()])
    with pytest.raises(UserError, match=r"required fields of t\.Tree"):
        ProtobufMessages(tree(required=True)).encode(encode(kind, [Row(None)]), kind)


def test_what_names_no_message_is_refused(tmp_path: Any) -> None:
    with pytest.raises(InvalidJob, match="is not a Protobuf message"):
        ProtobufRowDeserializationSchema(int)
    with pytest.raises(InvalidJob, match="or both descriptor_file and message_name"):
        ProtobufRowDeserializationSchema()
    with pytest.raises(InvalidJob, match="cannot read the Protobuf descriptors in"):
        ProtobufRowDeserializationSchema(descriptor_file=str(tmp_path / "no.desc"), message_name="a.B")
    (tmp_path / "orders.desc").write_bytes(ORDER.files)
    with pytest.raises(InvalidJob, match="does not declare the Protobuf message 'a.B'"):
        ProtobufRowDeserializationSchema(descriptor_file=str(tmp_path / "orders.desc"), message_name="a.B")
    (tmp_path / "text.desc").write_text("no descriptors")
    with pytest.raises(InvalidJob, match="does not declare"):
        ProtobufRowDeserializationSchema(descriptor_file=str(tmp_path / "text.desc"), message_name="a.B")


def message_of(*declared: tuple[str, str], enum: Sequence[tuple[str, int]] = ()) -> Any:
    """A class of the message ``M``, whose fields are of messages ``Empty`` and ``Around``, and of ``Kind``, an enum with aliases."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="m.proto", package="p", syntax="proto3")
    file.message_type.add(name="Empty")
    file.message_type.add(name="Around").field.add(name="inner", number=1, type=11, label=1, type_name=".p.Empty")
    kind = file.enum_type.add(name="Kind")
    kind.options.allow_alias = True
    for name, number in enum or [("ZERO", 0)]:
        kind.value.add(name=name, number=number)
    message = file.message_type.add(name="M")
    for number, (name, type_name) in enumerate(declared, 1):
        is_list = type_name.endswith("[]")
        field_type = 14 if "Kind" in type_name else 11
        message.field.add(
            name=name, number=number, type=field_type, label=3 if is_list else 1, type_name=type_name.removesuffix("[]")
        )
    return MessageType("p.M", files.SerializeToString()).message_class()


def test_of_names_of_one_number_the_first_is_read_and_every_one_is_written() -> None:
    """As in Java, whose enum has one constant for a number."""
    kinds = [("ZERO", 0), ("STARTED", 1), ("RUNNING", 1), ("ACTIVE", 1), ("DONE", 2), ("OVER", 2)]
    made = message_of(("kind", ".p.Kind"), ("kinds", ".p.Kind[]"), enum=kinds)
    schema = ProtobufRowDeserializationSchema(made)
    content = made(kind=1, kinds=[2, 1, 0]).SerializeToString()
    assert schema.decode([content]).to_pylist() == [{"kind": "STARTED", "kinds": ["DONE", "STARTED", "ZERO"]}]
    row = Types.ROW_NAMED(["kind"], [Types.STRING()])
    data = encode(row, [Row("ACTIVE"), Row("OVER")])
    written = ProtobufRowSerializationSchema(made).encode(data, row)
    assert [made.FromString(one).kind for one in written] == [1, 2]


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (".p.Empty", "field"),
        (".p.Empty[]", r"field\[\]"),
        (".p.Around", r"field\.inner"),
        (".p.Around[]", r"field\[\]\.inner"),
    ],
)
def test_a_message_without_fields_is_named_with_its_field(kind: str, path: str) -> None:
    with pytest.raises(InvalidJob, match=f"the field '{path}' is the Protobuf message p.Empty, which has no fields"):
        ProtobufRowDeserializationSchema(message_of(("field", kind)))
    with pytest.raises(InvalidJob, match="the schema is the Protobuf message p.M, which has no fields"):
        ProtobufRowDeserializationSchema(message_of())
