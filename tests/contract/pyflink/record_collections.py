"""Records what PyFlink's ``from_collection`` makes of every pair of type and value: ``python -m tests.contract.pyflink.record_collections``.

It takes a minute, with a JDK. Each value takes the way that it takes in a job, without the job: the client's conversion, Flink's
``CollectionInputFormat``, the serializer of Python operators, and the coder of the process that runs a ``map`` behind it. What that is
given is recorded, as ``repr``; or ``error``, where one of the steps fails.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.contract.pyflink.collections import evaluated, pairs

HERE = Path(__file__).parent
FOUND = HERE / "pyflink_2.3_collections.json"


def main() -> None:
    from tests.servers.flink_environment import flink_environment

    flink = flink_environment()
    environment = {**flink.variables(), "PYTHONPATH": str(HERE.parents[2])}
    subprocess.run([str(flink.python), "-m", __spec__.name, "inside"], env=environment, check=True, timeout=3000)


def inside() -> None:
    """In the environment of PyFlink."""
    from pyflink.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    asked = [(told, value) for told, values in pairs().items() for value in values]
    with tempfile.TemporaryDirectory() as directory:
        encoded, decoded = Path(directory, "encoded"), Path(directory, "decoded")
        encoded.write_text(json.dumps([_encoded(env, *pair) for pair in asked]))
        decoded.touch()
        while (count := len(decoded.read_text().splitlines())) < len(asked):
            command = [sys.executable, "-m", __spec__.name, "decode", str(encoded), str(decoded), str(count)]
            if subprocess.run(command, check=False, timeout=600).returncode:
                with decoded.open("a") as more:
                    more.write(json.dumps("error") + "\n")
        found = [json.loads(line) for line in decoded.read_text().splitlines()]
    lines = [json.dumps([told, value, seen]) for (told, value), seen in zip(asked, found, strict=True)]
    FOUND.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _encoded(env: Any, told: str, value: str) -> tuple[str, str]:
    try:
        type_info = evaluated(told, "pyflink")
        element = type_info.to_internal_type(evaluated(value, "pyflink"))
        proto, content = _through_flink(env, type_info, element)
    except Exception:  # noqa: BLE001  of many kinds: it is refused
        return "", ""
    return proto.hex(), content.hex()


def _through_flink(env: Any, type_info: Any, element: Any) -> tuple[bytes, bytes]:
    """The type and the value as a Python process is given them."""
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    flink = jvm.org.apache.flink
    utils = flink.streaming.api.utils.PythonTypeUtils
    with tempfile.NamedTemporaryFile(delete=False) as file:
        env.serializer.serialize([element], file)
    try:
        objects = jvm.PythonBridgeUtils.readPythonObjects(file.name)
    finally:
        os.unlink(file.name)
    java_type = type_info.get_java_type_info()
    loader = jvm.Thread.currentThread().getContextClassLoader()
    source = utils.getCollectionInputFormat(objects, java_type, env._j_stream_execution_environment.getConfig())
    source = flink.util.InstantiationUtil.deserializeObject(
        flink.util.InstantiationUtil.serializeObject(source), loader
    )
    field = source.getClass().getDeclaredField("dataSet")
    field.setAccessible(True)
    serializer = utils.TypeInfoToSerializerConverter.typeInfoSerializerConverter(java_type)
    several = flink.api.common.typeutils.base.ListSerializer(serializer)  # so that py4j converts nothing
    content = flink.util.InstantiationUtil.serializeToByteArray(several, jvm.java.util.ArrayList(field.get(source)))
    proto = utils.TypeInfoToProtoConverter.toTypeInfoProto(java_type, loader).toByteArray()
    return bytes(proto), bytes(content)[4:]


def decode() -> None:
    """Decodes what is in a file, from a line on, in a process without Java: PyFlink's coders crash on values of other types."""
    from pyflink.fn_execution import flink_fn_execution_pb2
    from pyflink.fn_execution.coders import from_type_info_proto

    encoded = json.loads(Path(sys.argv[2]).read_text())
    with Path(sys.argv[3]).open("a") as decoded:
        for proto, content in encoded[int(sys.argv[4]) :]:
            found = "error"
            if content:
                told = flink_fn_execution_pb2.TypeInfo.FromString(bytes.fromhex(proto))
                try:
                    found = re.sub(
                        r"@[0-9a-f]+", "@", repr(from_type_info_proto(told).get_impl().decode(bytes.fromhex(content)))
                    )
                except Exception:  # noqa: BLE001  of many kinds: it is refused
                    found = "error"
            decoded.write(json.dumps(found) + "\n")
            decoded.flush()


if __name__ == "__main__":
    {"inside": inside, "decode": decode}.get(" ".join(sys.argv[1:2]), main)()
