"""Records what Avro Java reads of each case of ``avro_cases.py``: ``python -m tests.contract.formats.record_avro``, with a JDK.

Avro comes from PySpark's jars. Conversions of all logical types are on, as in Flink's and in generated classes.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import pyspark

from tests.contract.formats.avro_cases import cases
from tests.servers.jars import java

HERE = Path(__file__).parent
ANSWERS = HERE / "avro_1.12.1_resolutions.json"


def main() -> None:
    jars = Path(pyspark.__file__).parent / "jars"
    assert list(jars.glob("avro-1.12.1.jar")), "the name of the file says which Avro it was"
    with tempfile.TemporaryDirectory() as directory:
        given, found = Path(directory, "cases.json"), Path(directory, "answers.json")
        given.write_text(json.dumps(cases()))
        command = [java(), "-cp", f"{jars}/*", str(HERE / "AvroResolutions.java"), str(given), str(found)]
        subprocess.run(command, check=True, timeout=300)
        answers = json.loads(found.read_text())
    ANSWERS.write_text("[\n" + ",\n".join(json.dumps(one) for one in answers) + "\n]\n")


if __name__ == "__main__":
    main()
