"""Logical types: texts and objects of plans, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.plan.errors import MalformedPlan
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot, decode_type, encode_type, parse_type

SIMPLE = [TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.FLOAT]
SIMPLE += [TypeRoot.DOUBLE, TypeRoot.DATE, TypeRoot.NULL, TypeRoot.VARIANT]
TEXTS = [TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY]
TIMES = [TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.TIMESTAMP_TZ]
nulls = st.booleans()


@st.composite
def decimals(draw: st.DrawFn) -> LogicalType:
    precision = draw(st.integers(1, 38))
    return LogicalType(TypeRoot.DECIMAL, draw(nulls), precision=precision, scale=draw(st.integers(0, precision)))


scalars = st.one_of(
    st.builds(LogicalType, st.sampled_from(SIMPLE), nulls),
    st.builds(LogicalType, st.sampled_from(TEXTS), nulls, length=st.integers(0, 2**31 - 1)),
    st.builds(LogicalType, st.just(TypeRoot.TIME), nulls, precision=st.integers(0, 9)),
    st.builds(
        LogicalType, st.sampled_from(TIMES), nulls, precision=st.integers(0, 9), kind=st.sampled_from(list(TimeKind))
    ),
    st.builds(
        LogicalType,
        st.just(TypeRoot.INTERVAL_DAY_TIME),
        nulls,
        resolution=st.sampled_from(["SECOND(6)", "HOUR", "DAY(2) TO SECOND(6)"]),
    ),
    st.builds(
        LogicalType,
        st.just(TypeRoot.INTERVAL_YEAR_MONTH),
        nulls,
        resolution=st.sampled_from(["MONTH", "YEAR(2) TO MONTH"]),
    ),
    decimals(),
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def nested(inner: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    fields = st.lists(st.builds(Field, names, inner, st.none() | names), max_size=4).map(tuple)
    return st.one_of(
        st.builds(LogicalType, st.sampled_from([TypeRoot.ARRAY, TypeRoot.MULTISET]), nulls, children=st.tuples(inner)),
        st.builds(LogicalType, st.just(TypeRoot.MAP), nulls, children=st.tuples(inner, inner)),
        st.builds(LogicalType, st.just(TypeRoot.ROW), nulls, fields=fields),
    )


types = st.recursive(scalars, nested, max_leaves=8)


@given(types)
def test_a_type_is_read_as_it_was_written(type: LogicalType) -> None:
    assert decode_type(encode_type(type)) == type
    assert hash(decode_type(encode_type(type))) == hash(type)


@given(types)
def test_a_text_is_used_where_it_says_everything(type: LogicalType) -> None:
    written = encode_type(type)
    if isinstance(written, str):
        assert parse_type(written) == type
        assert str(type) == written


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("STRING", "VARCHAR(2147483647)"),
        ("BYTES NOT NULL", "VARBINARY(2147483647) NOT NULL"),
        ("INTEGER", "INT"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("CHAR", "CHAR(1)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL", "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"),
        ("TIME", "TIME(0)"),
        (
            "MAP<INT,ROW<a INT NULL, `b ``c` STRING 'it''s'>>",
            "MAP<INT, ROW<`a` INT, `b ``c` VARCHAR(2147483647) 'it''s'>>",
        ),
        ("ROW<>", "ROW<>"),
        ("RAW('java.lang.Object', 'AAA=') NOT NULL", "RAW('java.lang.Object', 'AAA=') NOT NULL"),
    ],
)
def test_the_forms_of_a_text(text: str, wanted: str) -> None:
    assert str(parse_type(text)) == wanted


def test_a_time_attribute_is_an_object_and_so_is_what_holds_it() -> None:
    rowtime = LogicalType(TypeRoot.TIMESTAMP, precision=3, kind=TimeKind.ROWTIME)
    row = LogicalType(TypeRoot.ROW, fields=(Field("ts", rowtime), Field("n", LogicalType(TypeRoot.INTEGER))))
    assert encode_type(row) == {
        "type": "ROW",
        "fields": [
            {"name": "ts", "fieldType": {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}},
            {"name": "n", "fieldType": "INT"},
        ],
    }
    assert str(rowtime) == "TIMESTAMP(3) *ROWTIME*"
    assert rowtime.is_time_attribute


def test_parts_of_a_type() -> None:
    type = parse_type("ROW<`a` ARRAY<INT NOT NULL>, `b` DECIMAL(5, 2)>")
    assert type.field_names == ("a", "b")
    assert type.fields[0].type.element == LogicalType(TypeRoot.INTEGER, False)
    assert (type.fields[1].type.precision, type.fields[1].type.scale) == (5, 2)
    assert type.with_nullable(False) == parse_type("ROW<`a` ARRAY<INT NOT NULL>, `b` DECIMAL(5, 2)> NOT NULL")


def test_a_field_that_a_type_does_not_have_is_refused() -> None:
    with pytest.raises(MalformedPlan) as caught:
        decode_type({"type": "DECIMAL", "precision": 3, "size": 1})
    assert caught.value.message == "unknown field 'size' of the type DECIMAL"


@pytest.mark.parametrize(
    "written",
    [
        "STRUCTURED<'org.example.Pair', `f0` INT NOT NULL, `f1` ROW<`a` STRING>>",
        {
            "type": "STRUCTURED_TYPE",
            "implementationClass": "org.example.Pair",
            "attributes": [
                {"name": "f0", "attributeType": "INT NOT NULL"},
                {"name": "f1", "attributeType": "ROW<`a` STRING>"},
            ],
        },
    ],
    ids=["text", "object"],
)
def test_a_structured_type_tells_its_class_and_its_fields(written: object) -> None:
    found = decode_type(written)
    assert found.class_name == "org.example.Pair"
    assert found.attributes == (Field("f0", parse_type("INT NOT NULL")), Field("f1", parse_type("ROW<`a` STRING>")))


def test_a_raw_type_tells_its_class() -> None:
    assert parse_type("RAW('[B', 'AAA=') NOT NULL").class_name == "[B"
    assert decode_type({"type": "RAW", "class": "java.lang.Character"}).class_name == "java.lang.Character"
    assert parse_type("INT").class_name == ""
    assert parse_type("INT").attributes == ()
