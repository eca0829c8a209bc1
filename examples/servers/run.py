"""Kafka or PostgreSQL for trying, without containers, until Ctrl-C; the data go with the server.

python examples/servers/run.py kafka       # needs Java, and Maven to fetch the broker once; or --jars <kafka>/libs
python examples/servers/run.py postgres    # needs PostgreSQL's programs, as the package postgresql installs them
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

POM = Path(__file__).with_name("kafka.xml")
START_LIMIT_S = 120
QUIET = '{Configuration: {Appenders: {Console: {name: out, PatternLayout: {pattern: "%m%n"}}}, \
Loggers: {Root: {level: ERROR, AppenderRef: [{ref: out}]}}}}'


def main() -> None:
    parser = argparse.ArgumentParser(description="a server for trying, until Ctrl-C")
    parser.add_argument("server", choices=["kafka", "postgres"])
    parser.add_argument("--port", type=int, help="default: 9092 or 5432")
    parser.add_argument(
        "--jars", type=Path, help="the broker's jars: libs of a Kafka distribution; default: from Maven"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix=f"{arguments.server}-"))
    try:
        if arguments.server == "kafka":
            port = arguments.port or 9092
            process = kafka(directory, port, arguments.jars or fetched_jars())
            print(f"Kafka answers at localhost:{port}; Ctrl-C ends it", flush=True)
        else:
            port = arguments.port or 5432
            process = postgres(directory, port)
            print(
                f"PostgreSQL answers at host=localhost port={port} user=tidegate dbname=postgres; Ctrl-C ends it",
                flush=True,
            )
        try:
            process.wait()
        finally:
            process.terminate()
            process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def fetched_jars() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tidegate"
    target = cache / f"kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if not target.exists():
        if shutil.which("mvn") is None:
            sys.exit("error: Maven (mvn) is needed to fetch Kafka; or give --jars <a Kafka distribution>/libs")
        print("fetching Kafka ...", flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        fresh = tempfile.mkdtemp(dir=cache)
        done = subprocess.run(
            ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"],
            check=False,
        )
        if done.returncode != 0:
            shutil.rmtree(fresh)
            sys.exit("error: Maven could not fetch Kafka")
        os.rename(fresh, target)
    return target


def kafka(directory: Path, port: int, jars: Path) -> subprocess.Popen[bytes]:
    """One broker that is its own controller."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        controller = probe.getsockname()[1]
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": directory / "data",
        "num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        **dict.fromkeys(
            [
                "offsets.topic.replication.factor",
                "transaction.state.log.replication.factor",
                "transaction.state.log.min.isr",
                "share.coordinator.state.topic.replication.factor",
                "share.coordinator.state.topic.min.isr",
            ],
            1,
        ),
    }
    properties, log = directory / "server.properties", directory / "log4j2.yaml"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    log.write_text(QUIET, encoding="utf-8")
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
    run = [java, "-Xmx512m", "-XX:-UsePerfData", f"-Dlog4j2.configurationFile={log}", "-cp", f"{jars}/*"]
    storage = ["kafka.tools.StorageTool", "format", "-t", "dGlkZWdhdGUtdGVzdHMtMQ", "-c", str(properties)]
    subprocess.run([*run, *storage], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with (directory / "log").open("ab") as output:
        process = subprocess.Popen([*run, "kafka.Kafka", str(properties)], stdout=output, stderr=output)
    return when_it_answers(process, port, directory / "log")


def postgres(directory: Path, port: int) -> subprocess.Popen[bytes]:
    """A database cluster of its own. PostgreSQL refuses to run as root: then it runs as the user postgres."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parents[1].name))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if not initdb:
        sys.exit("error: initdb is not there: install PostgreSQL's server (package postgresql)")
    somebody: dict[str, Any] = {}
    if os.getuid() == 0:
        somebody = {"user": "postgres", "group": "postgres"}
        shutil.chown(directory, **somebody)
    data = directory / "data"
    make = [initdb, "-D", str(data), "-U", "tidegate", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd="/", **somebody)
    options = {
        "port": port,
        "listen_addresses": "localhost",
        "unix_socket_directories": directory,
        "max_prepared_transactions": 64,
    }
    run = [
        str(Path(initdb).with_name("postgres")),
        "-D",
        str(data),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(run, cwd="/", stdout=log, stderr=log, **somebody)
    return when_it_answers(process, port, directory / "log")


def when_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> subprocess.Popen[bytes]:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            socket.create_connection(("localhost", port), 1).close()
            return process
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                sys.exit(f"error: nothing answers at port {port}\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)


if __name__ == "__main__":
    main()
