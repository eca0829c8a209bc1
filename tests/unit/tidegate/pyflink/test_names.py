"""Every public name of PyFlink 2.3.0 is found in our module of the same name, with all its attributes, or refuses in words.

``names-2.3.0.json`` lists them: module -> name -> attributes of a class, as `apache-flink` 2.3.0 has them.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES: dict[str, dict[str, list[str]]] = json.loads(
    (Path(__file__).parent / "names-2.3.0.json").read_text(encoding="utf-8")
)
_REFUSAL = re.compile(r"stands for a Java class of Flink, which tidegate does not run; \w+")

INTERNAL = {
    r"(Internal|PassThrough)\w*(Function|Context)": "what PyFlink's worker wraps around a window's function",
    r"(Reduce)?FunctionWrapper|NullByteKeySelector|Min": "functions that PyFlink puts around or in place of a user's",
    r"(AsyncFunction|WindowOperation)Descriptor": "what PyFlink sends to its worker",
    r"PickleSerializer": "how PyFlink's worker talks to the JVM",
    r"get_field(_value)?|invoke_method|is_instance_of|is_local_deployment|add_jars_to_context_class_loader": (
        "calls into the JVM, which PyFlink's modules import from pyflink.util.java_utils"
    ),
    r"create_hadoop_configuration|convert_to_python_obj|ResultTypeQueryable": (
        "calls into the JVM, which PyFlink's modules import from pyflink.datastream.utils"
    ),
    r"StreamTransformer|SupportsPreprocessing|(File|Kafka)Sink\.get_transformer": (
        "how PyFlink turns records into objects of Java before a sink"
    ),
    r"KeyedStream\.AccumulateType": "an argument of a private method",
    r"long_to_int_with_bit_mixing|mod_inverse": "arithmetic of PyFlink's windows that it does not document",
    r"Public\.get_directive": "part of how PyFlink's documentation is made",
    r"create_url_class_loader|load_java_class": "calls into the JVM, which PyFlink's modules import from pyflink.util.java_utils",
    r"ArrowSerializer|BatchedSerializer|pickled_bytes_to_python_converter|tz_convert_from_internal": "how PyFlink moves rows to Java",
    r"Delegat\w+Function|PandasAggregateFunctionWrapper|UserDefinedAsyncScalarFunctionWrapper": (
        "what PyFlink puts around functions of users"
    ),
    r"(DataType|RowType|RowField)\.(need_conversion|(to|from)_sql_type|type_name)": "how PyFlink moves values to Java",
}
"""Names or attributes that a program has no use of -> why."""

REFUSED = {
    r"(Stream)?TableEnvironment\.create_java_\w+": "functions of Java",
    r"(Stream)?TableEnvironment\.\w+_models?|Catalog\.\w*models?(_exists)?": "models",
    r"(Stream)?TableEnvironment\.(load_module|unload_module|use_modules)": "modules of Java",
    r"(Stream)?TableEnvironment\.register_catalog": "catalogs of Java",
    r"Table\.(from|to)_changelog": "process table functions",
    r"(File|JsonContent)?PlanReference\.from_smile_bytes|CompiledPlan\.as_smile_bytes": "plans are JSON",
    r"Catalog\.\w*(partition|statistics|procedure)\w*|Catalog\.alter_table|Catalog\.list_materialized_tables": "what catalogs in memory have none of",
    r"Catalog\.(alter|create|drop|get)_function": "functions of catalogs, which statements name",
    r"CatalogBaseTable\.create_view": "views are made by create_view() and CREATE VIEW",
    r"Column\.(computed|copy|explain_extras|metadata|physical|rename|with_comment)": "columns are declared by Schema",
    r"ResolvedSchema\.(get_primary_key|get_watermark_specs|of|physical|to_(sink|source)_row_data_type)": "schemas are declared by Schema",
    r"Schema\.(fields?|from_origin_field|proctime|rowtime|schema|to_properties)": "Flink has removed the connectors that took them",
    r"Resolution\.(IntervalUnit|unit)|RowType\.add": "types are values, which nothing changes",
}
"""Names or attributes of tables that are not there -> what they are about. ``TableEnvironment`` says what to do instead."""


def listed() -> Iterator[tuple[str, str, str]]:
    """(module, name, attribute or nothing) for all that is listed."""
    for module, names in NAMES.items():
        for name, attributes in names.items():
            yield module, name, ""
            yield from ((module, name, attribute) for attribute in attributes)


def reason_to_lack(name: str, attribute: str) -> str | None:
    asked = (name, f"{name}.{attribute}")
    return next(
        (why for p, why in {**INTERNAL, **REFUSED}.items() if any(re.fullmatch(p, text) for text in asked)), None
    )


def is_refused(found: Any) -> bool:
    """Whether it is a name whose use is refused."""
    return isinstance(found, type) and "_refusal" in vars(found)


def is_had(module: str, name: str, attribute: str) -> bool:
    """Whether it is there or refuses in words."""
    found: Any = getattr(importlib.import_module(module.replace("pyflink", "tidegate", 1)), name, None)
    if found is None or not attribute:
        return found is not None
    try:
        return hasattr(found, attribute)
    except TypeError as refusal:
        return _REFUSAL.search(str(refusal)) is not None


@pytest.mark.parametrize("module", NAMES)
def test_a_module_has_what_pyflinks_has(module: str) -> None:
    importlib.import_module(module.replace("pyflink", "tidegate", 1))
    lacking = [
        f"{name}.{attribute}".rstrip(".")
        for of, name, attribute in listed()
        if of == module and reason_to_lack(name, attribute) is None and not is_had(module, name, attribute)
    ]
    assert lacking == []


def test_what_is_left_out_is_listed_and_not_there() -> None:
    for pattern in (*INTERNAL, *REFUSED):
        assert any(re.fullmatch(pattern, n) or re.fullmatch(pattern, f"{n}.{a}") for _, n, a in listed()), pattern
    there = {
        f"{m}.{n}" for m, n, a in listed() if reason_to_lack(n, a) and not reason_to_lack(n, "") and is_had(m, n, a)
    }
    assert there == set()


def test_the_list_is_whole() -> None:
    """A list that lost its half would let every test pass."""
    assert (len(NAMES), sum(1 for _ in listed())) == (84, 5578)


@pytest.mark.parametrize("module", NAMES)
def test_every_name_in_all_is_there(module: str) -> None:
    ours = importlib.import_module(module.replace("pyflink", "tidegate", 1))
    assert [name for name in getattr(ours, "__all__", []) if not hasattr(ours, name)] == []
