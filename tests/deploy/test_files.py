"""The files in deploy/ are valid: their systems accept units, chart, entrypoint and DAG, and Rheos
accepts each command and option in them, and on docs/deploy.md. `rendered/` is Helm's output for the
chart. To update it, on a machine with Helm: python -m tests.deploy.test_files"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml  # type: ignore[import-untyped]

from rheos.api.settings import Settings
from rheos.cli.main import app

TOP = Path(__file__).parents[2]
DEPLOY = TOP / "deploy"
CHART = DEPLOY / "kubernetes" / "rheos"
RENDERED = Path(__file__).parent / "rendered"
SETTINGS: Mapping[str, list[str]] = {
    "job": [],
    "cronjob": ["--set", "untilNow=5 * * * *", "--set", "secrets={s3-keys,kafka}"],
}
HELM = shutil.which("helm")


def texts() -> Iterator[tuple[str, str]]:
    for path in [
        *sorted(DEPLOY.rglob("*")),
        TOP / "docs" / "deploy.md",
        *sorted(RENDERED.glob("*.yaml")),
    ]:
        if path.is_file() and path.suffix not in (".whl", ".pyc"):
            yield str(path.relative_to(TOP)), path.read_text()


def commands() -> Iterator[tuple[str, list[str]]]:
    """Return the lines that are commands; for the chart, those of its output."""
    for name, text in texts():
        if name.endswith(".yaml"):
            for part in yaml.safe_load_all(text) if "rendered" in name else ():
                for container in _containers(part):
                    yield name, container["args"][1:]
            continue
        for line in text.replace("\\\n", " ").splitlines():
            found = re.search(r"(?:^|=|\s|/)rheos ((?:run|dashboard|stop|--version)\b[^`\"#|]*)", line)
            prose = name.endswith(".md") and ("`" in line or not re.match(r"[\w$/]", line))
            if found and not prose and not line.startswith("#"):
                yield name, shlex.split(re.sub(r"2?>>.*| -- .*", "", found[1]))


def _containers(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    spec = part.get("spec", {})
    pod = spec.get("jobTemplate", {"spec": spec})["spec"].get("template", {}).get("spec", {})
    return [*pod.get("initContainers", []), *pod.get("containers", [])]


COMMANDS = list(commands())


def test_there_are_commands_in_each_kind_of_file() -> None:
    said = {name for name, _ in COMMANDS}
    assert {Path(name).suffix for name in said} == {".service", "", ".py", ".md", ".yaml"}
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("name", "arguments"), COMMANDS, ids=lambda each: str(each)[:60])
def test_rheos_accepts_each_command(name: str, arguments: list[str]) -> None:
    if arguments == ["--version"]:
        return
    group: Any = typer.main.get_command(app)
    context = group.make_context("rheos", [], resilient_parsing=True)
    command = group.get_command(context, arguments[0])
    parsed = command.make_context(arguments[0], arguments[1:], parent=context)
    # What is no option of ours would be the program's.
    assert not [each for each in parsed.params.get("arguments") or [] if each.startswith("-")]


# --- systemd ----------------------------------------------------------------------------------------


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    units = []
    for unit in sorted((DEPLOY / "systemd").iterdir()):
        # It wants programs that are there.
        made = tmp_path / unit.name
        made.write_text(unit.read_text().replace("/opt/rheos/bin/rheos", shutil.which("env") or ""))
        units.append(str(made))
    done = subprocess.run([analyze, "verify", *units], capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# --- the container ----------------------------------------------------------------------------------


def entered(tmp_path: Path, *arguments: str, **environment: str) -> list[str]:
    """Return the command that the entrypoint runs, through a java that records its arguments."""
    java = tmp_path / "java"
    java.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    done = subprocess.run(
        ["bash", str(DEPLOY / "docker" / "entrypoint.sh"), *arguments],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_entrypoint_starts_an_executor_as_spark_documents(tmp_path: Path) -> None:
    said = {
        "SPARK_HOME": "/spark",
        "SPARK_EXECUTOR_MEMORY": "2g",
        "SPARK_DRIVER_URL": "spark://driver:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_APPLICATION_ID": "app-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_NAME": "orders-exec-3",
        "SPARK_CONF_DIR": "/conf",
    }
    options = {f"SPARK_JAVA_OPT_{n}": f"-Dn={n} with a space" for n in (0, 2, 10)}
    assert entered(tmp_path, "executor", **said, **options) == [
        *(f"-Dn={n} with a space" for n in (0, 2, 10)),
        *("-Xms2g", "-Xmx2g", "-cp", "/conf:/spark/jars/*"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://driver:7078", "--executor-id", "3", "--cores", "2"),
        *("--app-id", "app-1", "--hostname", "10.0.0.7", "--resourceProfileId", "0"),
        *("--podName", "orders-exec-3"),
    ]
    assert entered(tmp_path, "executor", **said)[0] == "-Xms2g"


def test_the_entrypoint_runs_any_other_command_unchanged(tmp_path: Path) -> None:
    assert entered(tmp_path, "printf", "%s|", "a b", "c") == ["a b|c|"]


def test_the_dockerfile_copies_existing_files() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (\S+) ", text, re.MULTILINE)
    assert copied == ["dist/", "entrypoint.sh"]
    assert (DEPLOY / "docker" / "entrypoint.sh").is_file()
    assert text.count("\nFROM ") == 1
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    assert json.loads(entrypoint)[-1] == "/usr/local/bin/rheos-entrypoint"


# --- Kubernetes -------------------------------------------------------------------------------------


def chart_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(CHART.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def rendered_by_helm(kind: str) -> str:
    command = [str(HELM), "template", "orders", str(CHART), "--namespace", "streams", *SETTINGS[kind]]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=True).stdout


def parts(text: str) -> list[Any]:
    found = [part for part in yaml.safe_load_all(text) if part]
    return sorted(found, key=lambda part: str(part["kind"]))


def test_the_rendered_files_are_of_this_chart() -> None:
    said = (RENDERED / "chart.sha256").read_text().strip()
    assert said == chart_digest(), "render it anew: python -m tests.deploy.test_files"


@pytest.mark.parametrize("kind", SETTINGS)
def test_helm_renders_the_chart(kind: str) -> None:
    if HELM is None:
        pytest.skip("there is no helm")
    assert parts(rendered_by_helm(kind)) == parts((RENDERED / f"{kind}.yaml").read_text())


@pytest.mark.parametrize("kind", SETTINGS)
def test_kubernetes_accepts_the_rendered_files(kind: str) -> None:
    schemas = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for part in parts((RENDERED / f"{kind}.yaml").read_text()):
        schemas.validate(part, schemas.latest_version(), strict=True)


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_pod_is_kept_running_and_probed(kind: str) -> None:
    found = {part["kind"]: part for part in parts((RENDERED / f"{kind}.yaml").read_text())}
    job = found["Job" if kind == "job" else "CronJob"]
    spec = job["spec"] if kind == "job" else job["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["shareProcessNamespace"]) == ("OnFailure", True)
    mounts = {json.dumps(each["volumeMounts"]) for each in _containers(job)}
    assert len(mounts) == 1, "the dashboard finds the driver in the same folders"
    if kind == "job":
        (dashboard,) = pod["initContainers"]
        assert dashboard["restartPolicy"] == "Always"
        probed = [dashboard[f"{name}Probe"]["exec"]["command"][2] for name in ("liveness", "readiness")]
        probed.append(pod["containers"][0]["livenessProbe"]["exec"]["command"][2])
        for code, path in zip(probed, ("/healthz", "/readyz", "/livez"), strict=True):
            ast.parse(code)
            assert f"http://127.0.0.1:8484{path}" in code
        assert "--port=8484" in dashboard["args"]
    settings = found["ConfigMap"]["data"]
    assert {line.split(" = ")[0] for line in settings["job.toml"].splitlines()} <= set(
        Settings.__dataclass_fields__
    )
    secrets = yaml.safe_load(settings["executor.yaml"])["spec"]["containers"][0]["envFrom"]
    assert secrets == pod["containers"][0]["envFrom"]


# --- cron and Airflow -------------------------------------------------------------------------------


def test_each_line_of_cron_has_all_fields() -> None:
    lines = (DEPLOY / "cron" / "rheos").read_text().splitlines()
    (line,) = [each for each in lines if each and each[0] not in "#SR"]
    *when, user, _ = line.split(" ", 6)
    assert all(re.fullmatch(r"[\d*/,-]+", each) for each in when)
    assert (len(when), user) == (5, "rheos")


def test_the_dag_never_catches_up_and_never_runs_twice_at_a_time() -> None:
    tree = ast.parse((DEPLOY / "airflow" / "orders_dag.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (dag,) = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "DAG"]
    said = {each.arg: ast.unparse(each.value) for each in dag.keywords}
    assert (said["catchup"], said["max_active_runs"]) == ("False", "1")


if __name__ == "__main__":
    for each in SETTINGS:
        (RENDERED / f"{each}.yaml").write_text(rendered_by_helm(each))
    (RENDERED / "chart.sha256").write_text(f"{chart_digest()}\n")
