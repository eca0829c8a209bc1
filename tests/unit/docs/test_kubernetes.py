"""The manifests for Kubernetes are valid, their parts name each other, and Spark knows the options in them; and the image's entry starts both kinds
of processes."""

from __future__ import annotations

import itertools
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pyspark
import pytest
import yaml

from tidegate.aio.settings import load_settings
from tidegate.model.configuration import Configuration
from tidegate.model.options import RuntimeOptions, TaskManagerOptions
from tidegate.taskmanager.service.identity import find_host
from tidegate.taskmanager.service.subtasks.spark_service import session_settings
from tidegate.taskmanager.spark.cluster.session_settings import session_properties

PLACE = Path(__file__).parents[3] / "examples" / "kubernetes"
PARTS: list[dict[str, Any]] = list(yaml.safe_load_all((PLACE / "tidegate.yaml").read_text()))
VERSIONS = ("1.29", "1.34")
"""The oldest that is tried, and a newer one."""
POD = "taskmanager-0"


def part(kind: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in PARTS if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def container(kind: str, name: str) -> dict[str, Any]:
    (found,) = part(kind, name)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def ports(containers: Iterable[dict[str, Any]], key: str) -> dict[str, int]:
    return {each["name"]: each[key] for each in containers}


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    """What the first TaskManager gets."""
    file = tmp_path / "config.yaml"
    file.write_text(part("ConfigMap", "tidegate")["data"]["config.yaml"])
    arguments = container("StatefulSet", "taskmanager")["args"]
    assert arguments[0] == "taskmanager"
    given = [each.removeprefix("-D").replace("$(POD_NAME)", POD) for each in arguments[1:]]
    found = load_settings(file, given)
    assert not found.warnings()
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", PARTS, ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_each_part_is_valid(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_everything_is_in_one_namespace() -> None:
    places = {each["metadata"].get("namespace") for each in PARTS if each["kind"] != "Namespace"}
    assert places == {part("Namespace", "streams")["metadata"]["name"]}


def test_executors_and_the_job_manager_find_a_task_manager_by_its_name_in_the_headless_service(
    configuration: Configuration, tmp_path: Path
) -> None:
    service, workload = part("Service", "taskmanager"), part("StatefulSet", "taskmanager")["spec"]
    assert service["spec"]["clusterIP"] == "None"
    assert workload["serviceName"] == "taskmanager"
    labels = workload["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items() == workload["selector"]["matchLabels"].items()
    host = find_host(configuration)
    assert host == f"{POD}.taskmanager.streams.svc"
    spark = session_properties(session_settings(configuration, tmp_path, host))
    assert spark["spark.driver.host"] == host
    assert spark["spark.kubernetes.driver.pod.name"] == POD, "executors are owned by the pod"
    wanted = {
        "rpc": configuration.get(TaskManagerOptions.RPC_PORT),
        "control": configuration.get(RuntimeOptions.CONTROL_PORT),
        "spark-driver": int(spark["spark.driver.port"]),
        "spark-blocks": int(spark["spark.driver.blockManager.port"]),
    }
    assert ports(service["spec"]["ports"], "port") == wanted
    assert ports(container("StatefulSet", "taskmanager")["ports"], "containerPort") == wanted


def test_the_driver_may_start_executors_and_gives_them_what_it_has(configuration: Configuration) -> None:
    spark = configuration.spark_properties()
    (subject,) = part("RoleBinding", "tidegate")["subjects"]
    account = part("StatefulSet", "taskmanager")["spec"]["template"]["spec"]["serviceAccountName"]
    assert subject["name"] == account == part("ServiceAccount", "tidegate")["metadata"]["name"]
    assert spark["spark.kubernetes.authenticate.executor.serviceAccountName"] == account
    (rule,) = part("Role", "tidegate")["rules"]
    assert {"pods", "services", "configmaps"} <= set(rule["resources"])
    assert {"create", "get", "list", "watch", "delete", "deletecollection"} <= set(rule["verbs"])
    image = container("StatefulSet", "taskmanager")["image"]
    assert image == container("Deployment", "jobmanager")["image"] == spark["spark.kubernetes.container.image"]
    volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data"
    assert spark[f"{volume}.options.claimName"] == part("PersistentVolumeClaim", "data")["metadata"]["name"]
    mounts = {each["name"]: each["mountPath"] for each in container("StatefulSet", "taskmanager")["volumeMounts"]}
    assert mounts["data"] == spark[f"{volume}.mount.path"]


def test_spark_knows_each_of_its_options(configuration: Configuration) -> None:
    """Its class of constants has their names, whole or in two parts."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        known = classes.read("org/apache/spark/deploy/k8s/Config$.class")

    def is_known(key: str) -> bool:
        cuts = [place for place, letter in enumerate(key) if letter == "."] + [len(key)]
        return any(key[:cut].encode() in known and key[cut:].encode() in known for cut in cuts[2:])

    named = [key for key in configuration.spark_properties() if key.startswith("spark.kubernetes.")]
    keys = [key for key in named if not key.startswith("spark.kubernetes.executor.volumes.")]
    assert len(keys) >= 5
    assert [key for key in keys if not is_known(key)] == []
    assert not is_known("spark.kubernetes.authenticate.accountOfService")


def run_entry(tmp_path: Path, *arguments: str, **environment: str) -> list[str]:
    """What the image's entry runs, with programs in the place of java and tidegate that print their arguments."""
    for name in ("java", "tidegate"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        program.chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        [str(PLACE / "entrypoint.sh"), *arguments],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_entry_of_the_image_is_a_command_of_ours_or_an_executor(tmp_path: Path) -> None:
    assert run_entry(tmp_path, "taskmanager", "-Da=b c") == ["tidegate", "taskmanager", "-Da=b c"]
    given = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@taskmanager-0:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "8",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_EXECUTOR_POD_IP": "10.1.2.3",
        "SPARK_EXECUTOR_POD_NAME": "tidegate-exec-3",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
    }
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dspark.option{number}=x y" for number in range(12)}
    found = run_entry(tmp_path, "executor", **given, **options)
    assert found[:13] == ["java", *options.values()]
    assert found[found.index("-cp") + 1].endswith("/pyspark/jars/*")
    values = dict(itertools.pairwise(found))
    named = {key: values[f"--{key}"] for key in ("driver-url", "executor-id", "cores", "app-id", "hostname", "podName")}
    assert list(named.values()) == [
        *(given[f"SPARK_{name}"] for name in ("DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID")),
        given["SPARK_EXECUTOR_POD_IP"],
        given["SPARK_EXECUTOR_POD_NAME"],
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_application_takes_the_place_of_the_jobmanager(version: str) -> None:
    application = yaml.safe_load((PLACE / "application.yaml").read_text())
    kubernetes_validate.validate(application, version, strict=True)
    pod, own = application["spec"]["template"], part("Deployment", "jobmanager")["spec"]["template"]
    assert pod["metadata"]["labels"] == own["metadata"]["labels"], "the service finds it"
    assert pod["spec"]["volumes"] == own["spec"]["volumes"]
    (begun,), (standing,) = pod["spec"]["containers"], own["spec"]["containers"]
    for same in ("env", "ports", "readinessProbe", "volumeMounts"):
        assert begun[same] == standing[same]
    assert begun["args"][:2] == ["jobmanager", "-D"]
    assert begun["args"][3] == "--job"
    load_settings(None, [begun["args"][2]])
