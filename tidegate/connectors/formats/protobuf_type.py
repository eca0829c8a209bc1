"""The row types of Protobuf messages (Flink's ``protobuf`` format), and messages' descriptors without their generated modules.

    bool BOOLEAN · int32, uint32 INT · int64, uint64 LONG · float FLOAT · double DOUBLE · string, enum STRING · bytes BYTES
    repeated LIST · map MAP · message ROW, google.protobuf.Timestamp among them

As in Flink, whose types are Java's, an unsigned number above the largest signed one of its size is negative, unless the type that is
asked for is larger: a ``uint32`` as ``LONG`` is what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import Message

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.model.errors import InvalidJob

_PLAIN = {
    FieldDescriptor.CPPTYPE_BOOL: Types.BOOLEAN,
    FieldDescriptor.CPPTYPE_INT32: Types.INT,
    FieldDescriptor.CPPTYPE_UINT32: Types.INT,
    FieldDescriptor.CPPTYPE_INT64: Types.LONG,
    FieldDescriptor.CPPTYPE_UINT64: Types.LONG,
    FieldDescriptor.CPPTYPE_FLOAT: Types.FLOAT,
    FieldDescriptor.CPPTYPE_DOUBLE: Types.DOUBLE,
    FieldDescriptor.CPPTYPE_STRING: Types.STRING,
    FieldDescriptor.CPPTYPE_ENUM: Types.STRING,
}


@dataclass(frozen=True)
class MessageType:
    """A message type by its full name, with the files that declare it (a serialized ``FileDescriptorSet``)."""

    name: str
    files: bytes

    @staticmethod
    def of(message: object) -> MessageType:
        """Returns the type of a message. ``message``: a generated class, or a descriptor. Raises ``InvalidJob`` for anything else."""
        descriptor = getattr(message, "DESCRIPTOR", message)
        if not isinstance(descriptor, Descriptor):
            raise InvalidJob(f"{message!r} is not a Protobuf message: give a generated class, such as orders_pb2.Order")
        found: dict[str, FileDescriptor] = {}
        _collect(descriptor.file, found)
        files = descriptor_pb2.FileDescriptorSet()
        for file in found.values():
            file.CopyToProto(files.file.add())
        return MessageType(descriptor.full_name, files.SerializeToString(deterministic=True))

    @staticmethod
    def from_file(path: str, name: str) -> MessageType:
        """Reads a message type from a descriptor file. ``path``: on the client, as ``protoc --include_imports --descriptor_set_out`` wrote it.
        ``name``: with its package. Raises ``InvalidJob``."""
        try:
            with open(path, "rb") as file:
                found = MessageType(name, file.read())
            found.message_class()
        except OSError as error:
            raise InvalidJob(f"cannot read the Protobuf descriptors in {path}: {error.strerror}") from error
        except (TypeError, KeyError, InvalidJob) as error:
            raise InvalidJob(f"{path} does not declare the Protobuf message {name!r}: {error}") from error
        return found

    def message_class(self) -> type[Message]:
        """Returns the message class, made once for each process. Raises ``InvalidJob`` where the files do not fit together."""
        return _message_class(self.name, self.files)

    def descriptor(self) -> Descriptor:
        """Returns the descriptor of the message."""
        found = self.message_class().DESCRIPTOR
        assert isinstance(found, Descriptor)
        return found

    def row_type(self) -> TypeInformation:
        """Returns the row type of all fields. Raises ``InvalidJob`` for a message that contains itself."""
        return row_type(self.descriptor())


@lru_cache(maxsize=64)
def _message_class(name: str, files: bytes) -> type[Message]:
    """Makes the message class in a descriptor pool of its own, since a process may have another version of the message."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except Exception as error:  # protobuf's implementations raise what they like
        raise InvalidJob(f"the Protobuf message {name!r} cannot be made: {type(error).__name__}: {error}") from error


def _collect(file: FileDescriptor, found: dict[str, FileDescriptor]) -> None:
    """Collects a file and its imports, imports first."""
    if file.name not in found:
        for imported in file.dependencies:
            _collect(imported, found)
        found[file.name] = file


def row_type(message: Descriptor, inside: tuple[str, ...] = (), path: str = "") -> TypeInformation:
    """Returns the row type of all fields. Raises ``InvalidJob`` for a message that contains itself or has no fields. ``path``: of the field whose type
    it is."""
    if message.full_name in inside:
        raise InvalidJob(
            f"{f'in the field {path!r}: ' if path else ''}the Protobuf message {message.full_name} contains itself: "
            "give a type_info with the fields that you want"
        )
    inner = (*inside, message.full_name)
    if not message.fields:
        where = f"the field {path!r} is" if path else "the schema is"
        raise InvalidJob(
            f"{where} the Protobuf message {message.full_name}, which has no fields, and so no columns: give a type_info with the fields that you want"
        )
    types = [_field_type(one, inner, f"{path}.{one.name}".lstrip(".")) for one in message.fields]
    return Types.ROW_NAMED([one.name for one in message.fields], types)


def _field_type(one: FieldDescriptor, inside: tuple[str, ...], path: str) -> TypeInformation:
    if is_map(one):
        key, value = entry_of(one)
        return Types.MAP(_element_type(key, inside, path), _element_type(value, inside, f"{path}{{}}"))
    if is_repeated(one):
        return Types.LIST(_element_type(one, inside, f"{path}[]"))
    return _element_type(one, inside, path)


def _element_type(one: FieldDescriptor, inside: tuple[str, ...], path: str) -> TypeInformation:
    if one.message_type is not None:
        return row_type(one.message_type, inside, path)
    if one.type == FieldDescriptor.TYPE_BYTES:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    return _PLAIN[one.cpp_type]()


def entry_of(one: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    """Returns the key and value fields of a map."""
    assert one.message_type is not None
    found = one.message_type.fields_by_name
    return found["key"], found["value"]


def is_repeated(one: FieldDescriptor) -> bool:
    """Returns whether the field is a list or a map."""
    return bool(one.is_repeated)


def is_map(one: FieldDescriptor) -> bool:
    """Returns whether the field is a map, which is stored as a list of its entries."""
    kind = one.message_type
    return is_repeated(one) and kind is not None and bool(kind.GetOptions().map_entry)


def check_row(message: Descriptor, kind: pa.DataType, place: str = "") -> None:
    """Raises ``InvalidJob`` that names each field of a row which the message does not have, or has with another type."""
    wrong = list(_mismatches(message, kind, place))
    if wrong:
        raise InvalidJob(f"the type does not fit the Protobuf message {message.full_name}: {'; '.join(wrong)}")


def _mismatches(message: Descriptor, kind: pa.DataType, place: str) -> Iterator[str]:
    for field in kind:
        one, name = message.fields_by_name.get(field.name), f"{place}{field.name}"
        if one is None:
            known = ", ".join(f.name for f in message.fields)
            yield f"{name!r} is none of its fields ({known})"
        elif is_map(one):
            if not pa.types.is_map(field.type):
                yield f"{name!r} is a map"
            else:
                key, value = entry_of(one)
                yield from _element_mismatches(key, field.type.key_type, f"{name} key")
                yield from _element_mismatches(value, field.type.item_type, f"{name} value")
        elif is_repeated(one) != _is_list(field.type):
            yield f"{name!r} is {'repeated: a LIST' if is_repeated(one) else 'not repeated'}"
        else:
            yield from _element_mismatches(one, field.type.value_type if is_repeated(one) else field.type, name)


def _element_mismatches(one: FieldDescriptor, kind: pa.DataType, name: str) -> Iterator[str]:
    if one.message_type is not None:
        if pa.types.is_struct(kind):
            yield from _mismatches(one.message_type, kind, f"{name}.")
        else:
            yield f"{name!r} is a message: a ROW"
    elif not any(fits(kind) for fits in _FITS[one.type if one.type == FieldDescriptor.TYPE_BYTES else -one.cpp_type]):
        yield f"{name!r} is {_NAMES.get(one.type, 'a number')}, and no {kind}"


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


_F = FieldDescriptor
_FITS: dict[int, tuple[Callable[[pa.DataType], bool], ...]] = {
    _F.TYPE_BYTES: (pa.types.is_binary,),
    -_F.CPPTYPE_BOOL: (pa.types.is_boolean,),
    -_F.CPPTYPE_INT32: (pa.types.is_int32,),
    -_F.CPPTYPE_UINT32: (pa.types.is_int32, pa.types.is_int64),
    -_F.CPPTYPE_INT64: (pa.types.is_int64,),
    -_F.CPPTYPE_UINT64: (pa.types.is_int64,),
    -_F.CPPTYPE_FLOAT: (pa.types.is_float32,),
    -_F.CPPTYPE_DOUBLE: (pa.types.is_float64,),
    -_F.CPPTYPE_STRING: (pa.types.is_string,),
    -_F.CPPTYPE_ENUM: (pa.types.is_string, pa.types.is_integer),
}
"""Checks of the column types that a field may have: by its C++ type, negated, and for bytes, whose C++ type is that of texts, by their own."""
_NAMES = {_F.TYPE_BYTES: "bytes", _F.TYPE_STRING: "a text", _F.TYPE_BOOL: "a boolean", _F.TYPE_ENUM: "an enum"}
