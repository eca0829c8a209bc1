"""Properties of Spark reach its JVM by a file that only this user can read."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

from tests.servers.jars import java
from tidegate.taskmanager.spark.jvm import write_properties

PROPERTIES = {
    "spark.hadoop.fs.s3a.secret.key": "a b=c:d#e!f\\g",
    "spark.é key": " leads and trails ",
    "spark.lines": "one\ntwo\ttabs \U0001f600",
    "spark.empty": "",
}
_READS = """
import java.io.*; import java.nio.charset.StandardCharsets; import java.util.*;
public class Reads { public static void main(String[] of) throws Exception {
    Properties found = new Properties();
    try (Reader reader = new InputStreamReader(new FileInputStream(of[0]), StandardCharsets.UTF_8)) { found.load(reader); }
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String name : new TreeSet<>(found.stringPropertyNames())) out.print(name + "\\0" + found.getProperty(name) + "\\0");
}}
"""


def test_java_reads_what_was_written(tmp_path: Path) -> None:
    file, program = tmp_path / "spark.properties", tmp_path / "Reads.java"
    write_properties(PROPERTIES, file)
    program.write_text(_READS)
    said = subprocess.run([java(), str(program), str(file)], capture_output=True, timeout=100, check=True).stdout
    words = said.decode().split("\0")
    assert dict(zip(words[::2], words[1::2], strict=False)) == PROPERTIES
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
