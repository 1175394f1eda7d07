"""Answers of REST, and which callers may see which jobs."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import AttemptStarted
from rheos.core.errors import CheckpointError, Site
from rheos.core.metrics.health import FindingKind, Severity, simple_health
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.ops.control.job_logs import LogFile
from rheos.ops.control.processes import this_process
from rheos.ops.control.registry import Registry
from rheos.ops.dashboard.operations import Operation, operations
from rheos.runtimes.driver.driver_logs import JOBS
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig, JobState
from tests.cli.stand_ins import HISTORY, INFO, STORY, StandIn, outline
from tests.ops.dashboard.conftest import OPERATOR, VIEWER, Asking
from tests.waiting import wait_for


def test_rest_describes_a_running_job(asking: Asking) -> None:
    key = asking.key()
    (listed,) = asking.get("/jobs")
    assert (listed["id"], listed["state"], listed["parallelism"]) == ("job", "running", 2)
    shown = asking.get(f"/jobs/{key}")
    assert {**listed, "operators": shown["operators"]} == shown
    assert shown["operators"][0]["counters"] == {"late": 1}
    assert asking.get(f"/jobs/{key}/plan") == msgspec.to_builtins(outline())
    assert asking.get(f"/jobs/{key}/settings")["state.backend"] == "memory"
    metrics = asking.get(f"/jobs/{key}/metrics")["metrics"]
    assert metrics["busy_ms"]["readings"][1] == {
        "chain": "1",
        "subtask": "1",
        "value": 1900.0,
        "per_s": 750.0,
    }
    assert asking.get(f"/jobs/{key}/history") == msgspec.to_builtins(HISTORY)
    (checkpoint,) = asking.get(f"/jobs/{key}/checkpoints")
    assert (checkpoint["checkpoint"], checkpoint["savepoint"]) == (INFO.checkpoint, INFO.savepoint)
    assert asking.get(f"/jobs/{key}/decisions") == list(STORY)
    (newest,) = asking.get(f"/jobs/{key}/event-log?lines=1")
    assert (newest["at"], newest["until"]) == ("2023-11-14T22:13:30.000Z", "2023-11-14T22:13:34.000Z")
    assert newest["text"] == "worker 1 lost (killed by signal 9), restarted in 4.0 s"
    assert (newest["kind"], newest["level"], newest["ongoing"]) == ("restart", "warning", False)
    assert asking.refused(f"/jobs/{key}/event-log?lines=0") == (400, "'0' is not a number of lines")


def test_rest_returns_logged_lines(asking: Asking) -> None:
    key = asking.key()
    for said in ("one", "two", "three"):
        JOBS.info("%s", said, extra={"job": "job", "attempt": 2})
    lines = asking.get(f"/jobs/{key}/logs?lines=2")
    assert [(line["message"], line["attempt"], line["level"]) for line in lines] == [
        ("two", 2, "info"),
        ("three", 2, "info"),
    ]
    assert asking.refused(f"/jobs/{key}/logs?lines=-1") == (400, "'-1' is not a number of lines")


def test_rest_returns_the_requested_metrics_of_the_history(asking: Asking) -> None:
    key = asking.key()
    assert asking.get(f"/jobs/{key}/history?metric=rows_in&metric=restarts")["fine"]["values"] == [
        [5.0],
        [None],
    ]
    assert asking.get(f"/jobs/{key}/history?metric=restarts")["fine"]["values"] == [[], []]


def test_old_paths_and_parameters_still_answer_and_are_marked_as_deprecated(asking: Asking) -> None:
    key = asking.key()
    headers = {"Authorization": f"Bearer {VIEWER}"}
    new = asking.client.get(f"/api/v1/jobs/{key}/metrics", headers=headers)
    old = asking.client.get(f"/api/v1/jobs/{key}/figures", headers=headers)
    assert (new.headers.get("Deprecation"), old.headers["Deprecation"]) == (None, "true")
    assert old.json()["figures"].keys() == new.json()["metrics"].keys()
    assert asking.get(f"/jobs/{key}/story") == asking.get(f"/jobs/{key}/decisions")
    by_old_name = asking.get(f"/jobs/{key}/history?figure=rows_in")
    assert by_old_name == asking.get(f"/jobs/{key}/history?metric=rows_in")
    paths = asking.client.get("/openapi.json").json()["paths"]
    marked = {path for path, methods in paths.items() if methods.get("get", {}).get("deprecated")}
    assert {path.rpartition("/")[2] for path in marked} == {"figures", "story"}


def test_operations_are_carried_out_and_audited(asking: Asking, job: StandIn) -> None:
    key = asking.key()
    assert asking.post(f"/jobs/{key}/savepoint", {"directory": "/data/s"}) == (
        200,
        {"directory": "/data/s/savepoint-1"},
    )
    assert asking.post(f"/jobs/{key}/stop", {"drain": True}) == (200, {"directory": "None/savepoint-1"})
    assert job.asked == [("savepoint", "/data/s"), ("stop", None, True)]
    lines = [
        (line["who"], line["operation"], line["job"], line["outcome"]) for line in asking.audited()
    ]
    assert lines == [
        ("oncall", "savepoint", "job", "asked for"),
        ("oncall", "savepoint", "job", "done"),
        ("oncall", "stop", "job", "asked for"),
        ("oncall", "stop", "job", "done"),
    ]
    assert asking.audited()[0]["arguments"] == {"directory": "/data/s"}


def test_the_audit_shows_a_refused_path_without_credentials(asking: Asking, job: StandIn) -> None:
    path, place = f"/jobs/{asking.key()}/savepoint", "s3://key:hidden@bucket/a"
    status, error = asking.post(path, {"directory": place})
    assert (status, job.asked) == (400, [])
    assert "'directory' is 's3://***@bucket/a', which is not below" in error["what"]
    asked, refused = asking.audited()
    assert asked["arguments"] == refused["arguments"] == {"directory": "s3://***@bucket/a"}
    assert "not below" in refused["outcome"]
    body = {"file": "../v2.py", "parameters": {"api_key": "hidden"}}
    assert asking.post(f"/jobs/{asking.key()}/fork", body)[0] == 400
    assert asking.audited()[-1]["arguments"]["parameters"] == {"api_key": "***"}
    assert asking.audited()[-1]["arguments"]["file"] == "../v2.py"
    assert "hidden" not in json.dumps(asking.audited())


def test_profiling_a_subtask_needs_the_role_operate(asking: Asking, job: StandIn) -> None:
    key = asking.key()
    status, profile = asking.post(f"/jobs/{key}/profile", {"subtask": 1, "seconds": 0.5})
    assert (status, job.asked) == (200, [("profile", 1, 500)])
    assert (profile["samples"], profile["stacks"]["step (engine.py:1)"]) == (4, 1)
    assert [(line["operation"], line["outcome"]) for line in asking.audited()] == [
        ("profile", "asked for"),
        ("profile", "done"),
    ]
    assert asking.post(f"/jobs/{key}/profile", {"subtasks": 1})[0] == 400


def test_a_slow_savepoint_does_not_block_views(asking: Asking, job: StandIn) -> None:
    job.allowed.clear()
    key, answers = asking.key(), []
    posts = [
        threading.Thread(target=lambda: answers.append(asking.post(f"/jobs/{key}/savepoint", {})[0]))
        for _ in range(8)
    ]
    for thread in posts:
        thread.start()
    wait_for(lambda: len(job.asked) == len(posts), 20)
    assert asking.get(f"/jobs/{key}/checkpoints")
    assert answers == []
    job.allowed.set()
    for thread in posts:
        thread.join(20)
    assert answers == [200] * len(posts)


def test_a_job_is_cancelled(asking: Asking, job: StandIn) -> None:
    assert asking.post(f"/jobs/{asking.key()}/cancel", {}) == (200, {"done": True})
    assert job.asked == [("cancel",)]


def test_an_error_of_the_job_is_returned(asking: Asking, job: StandIn) -> None:
    job.savepoint_failure = CheckpointError(
        "the disk is full", site=Site("job.py", 7), operator="map", hint="make room"
    )
    status, error = asking.post(f"/jobs/{asking.key()}/savepoint", {})
    assert status == 409
    assert (error["what"], error["file"], error["line"], error["hint"]) == (
        "the disk is full",
        "job.py",
        7,
        "make room",
    )
    assert asking.audited()[-1]["outcome"] == "CheckpointError: the disk is full"


@pytest.mark.parametrize("operation", [each for each in operations() if each.body is not None])
def test_the_role_look_may_not_operate(asking: Asking, job: StandIn, operation: Operation) -> None:
    path = operation.path.format(job=asking.key())
    status, error = asking.post(path, {}, VIEWER)
    needed = f"this operation needs the role {operation.role.value!r}"
    assert (status, error["what"]) == (403, needed)
    assert (job.asked, asking.audited()) == ([], [])


@pytest.mark.parametrize("path", ["/jobs", "/events", "/jobs/x/events", "/jobs/x/decisions"])
@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer no"}, {"Authorization": OPERATOR}])
def test_requests_without_a_token_are_refused(
    asking: Asking, path: str, header: dict[str, str]
) -> None:
    answer = asking.client.get(f"/api/v1{path}", headers=header)
    assert (answer.status_code, answer.json()["what"]) == (401, "unknown token")


def test_a_foreign_host_header_is_refused(asking: Asking) -> None:
    headers = {"Authorization": f"Bearer {OPERATOR}", "Host": "evil.example"}
    assert asking.client.get("/api/v1/jobs", headers=headers).status_code == 400


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "the body is not valid for 'stop'"),
        ('{"drain": 3}', "Expected `bool`, got `int`"),
        ('{"folder": "/s"}', "unknown field `folder`"),
        ('{"directory": "' + "x" * 20_000 + '"}', "the body is larger than 16384 bytes"),
    ],
)
def test_an_invalid_body_is_refused(asking: Asking, job: StandIn, body: str, said: str) -> None:
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    path = f"/api/v1/jobs/{asking.key()}/stop"
    answer = asking.client.post(path, content=body, headers=headers)
    assert answer.status_code == 400
    assert said in answer.json()["what"]
    assert job.asked == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{}", "missing required field `features`"),
        ('{"features": "last", "keys": ["ada"]}', "Expected `str`, got `array`"),
        ('{"features": "last", "keys": "[]", "from": 1}', "unknown field `from`"),
        ('{"features": "last", "keys": "\\u0000"}', "contains a character that is not valid"),
        ('{"features": "' + "x" * 5_000 + '", "keys": "[]"}', "length <= 4096"),
        ('{"features": "last", "keys": "' + "x" * 300_000 + '"}', "larger than 262144 bytes"),
        ("[" * 100_000, "the body is not valid"),
    ],
)
def test_an_invalid_body_of_a_read_is_refused(asking: Asking, body: str, said: str) -> None:
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    path = f"/api/v1/jobs/{asking.key()}/features"
    answer = asking.client.post(path, content=body, headers=headers)
    assert answer.status_code == 400
    assert said in answer.json()["what"]
    refused = asking.client.post(path, content=body, headers={"Authorization": f"Bearer {VIEWER}"})
    assert refused.status_code == 403


def test_an_unknown_job_is_not_found(asking: Asking) -> None:
    assert asking.refused("/jobs/nobody/plan") == (404, "unknown job 'nobody'")


def test_a_stored_job_is_shown_but_refuses_operations(asking: Asking, stored: Path) -> None:
    entry = AttemptStarted(
        attempt=Attempt(1),
        owner="a driver",
        reserved_to=CheckpointId(0),
        from_checkpoint=None,
        parallelism=2,
        completed=[],
    )
    JobLog(open_store(str(stored)), JobId("old one")).append(1, entry)
    (key,) = [job["key"] for job in asking.get("/jobs") if not job["runs"]]
    shown = asking.get(f"/jobs/{key}")
    assert (shown["id"], shown["state"], shown["attempt"]) == ("old one", "does not run here", 1)
    assert asking.get(f"/jobs/{key}/checkpoints") == []
    assert asking.get(f"/jobs/{key}/history")["fine"]["at_ms"] == []
    assert asking.refused(f"/jobs/{key}/plan") == (
        409,
        "the job 'old one' is not running: only a running job has its plan",
    )
    assert asking.post(f"/jobs/{key}/cancel", {})[0] == 409
    assert asking.post(f"/jobs/{key}/why", {"sink": "out", "row": {}})[0] == 409


def test_rest_returns_the_health_of_a_running_job(asking: Asking, job: StandIn) -> None:
    path = f"/jobs/{asking.key()}/health"
    assert asking.refused(path)[0] == 409, "its driver has not looked yet"
    stuck = simple_health(
        Severity.STUCK,
        10_000,
        kind=FindingKind.PUBLISHING,
        what="the sink 'out' has published nothing for 9 s",
        what_to_do="start the target",
        since_ms=1_000,
    )
    job.shown = replace(job.shown, health=stuck)
    shown = asking.get(path)
    assert (shown["state"], shown["since"], shown["for_ms"]) == (
        "stuck",
        "1970-01-01T00:00:01.000Z",
        9_000,
    )
    assert shown["findings"] == [
        {
            "kind": "publishing",
            "severity": "stuck",
            "what": "the sink 'out' has published nothing for 9 s",
            "what_to_do": "start the target",
            "since_ms": 1_000,
            "since": "1970-01-01T00:00:01.000Z",
            "for_ms": 9_000,
            "operator": None,
            "subtask": None,
            "server": None,
        }
    ]
    (listed,) = asking.get("/jobs")
    assert listed["health"] == shown


def test_a_failed_job_shows_its_failure(asking: Asking, stored: Path) -> None:
    entry = AttemptStarted(
        attempt=Attempt(1),
        owner="a driver",
        reserved_to=CheckpointId(0),
        from_checkpoint=None,
        parallelism=2,
        completed=[],
    )
    old = JobConfig(JobId("old one"), checkpoint_dir=str(stored))
    JobLog(open_store(str(stored)), old.job).append(1, entry)
    (path,) = [f"/jobs/{each['key']}" for each in asking.get("/jobs") if not each["runs"]]
    assert asking.get(path)["failure"] is None
    log = LogFile(old.key, old.job)
    JOBS.error("the job 'old one' has failed: no price", extra={"job": "old one"})
    assert asking.get(path)["failure"] == "the job 'old one' has failed: no price"
    JOBS.info("the job 'old one' is running", extra={"job": "old one"})
    log.close()
    assert asking.get(path)["failure"] is None
    assert [line["level"] for line in asking.get(f"{path}/logs")] == ["error", "info"]


def test_a_job_that_has_ended_is_still_shown(asking: Asking, job: StandIn) -> None:
    key = asking.key()
    JOBS.error("%s", "no price", extra={"job": "job"})
    job.shown = replace(job.shown, state=JobState.FAILED, failure="job.py:7: no price")
    job.over.set()
    wait_for(lambda: Registry().records() == [], 20)
    (listed,) = asking.get("/jobs")
    assert (listed["key"], listed["runs"], listed["state"]) == (key, False, "failed")
    assert listed["health"]["state"] == "failing"
    (failed,) = listed["health"]["findings"]
    assert (failed["kind"], failed["what"]) == ("failed", "the job failed: job.py:7: no price")
    assert failed["since_ms"] == listed["ended_ms"]
    assert asking.get(f"/jobs/{key}")["failure"] == "job.py:7: no price"
    assert [line["message"] for line in asking.get(f"/jobs/{key}/logs")] == ["no price"]
    assert asking.get(f"/jobs/{key}/checkpoints") == []
    assert [event["id"] for event in asking.get(f"/jobs/{key}/event-log")] == ["d-2", "d-1"]
    assert asking.get(f"/jobs/{key}/history")["fine"]["at_ms"] == []
    assert asking.post(f"/jobs/{key}/cancel", {})[0] == 409


def test_an_address_stays_valid_over_several_drivers(asking: Asking, job: StandIn) -> None:
    """A job is killed, taken over and ended: its address, with its key or its name, stays the same."""
    key = asking.key()
    registry = Registry()
    (running,) = registry.records()
    dead = msgspec.structs.replace(this_process(), started_s=1.0)
    registry.add(msgspec.structs.replace(running, driver="killed", started_ms=1, process=dead))
    waits = msgspec.structs.replace(running, driver="waits", stands_by=True)
    registry.add(msgspec.structs.replace(waits, started_ms=running.started_ms + 1))
    shown = asking.get(f"/jobs/{key}")
    assert (shown["key"], shown["state"], shown["runs"]) == (key, "running", True)
    assert [each["key"] for each in asking.get("/jobs")] == [key]
    registry.remove(running)  # The first driver is gone, and the other takes the job over.
    assert asking.get(f"/jobs/{key}")["state"] == "standing by"
    registry.remove(waits)
    assert asking.get(f"/jobs/{key}")["state"] == "lost"
    assert [each["key"] for each in asking.get("/jobs")] == [key]
    registry.add(msgspec.structs.replace(running, driver="successor"))
    for named in (key, running.job, "a%20job"):
        assert asking.get(f"/jobs/{named}")["state"] == "running"
    registry.remove(msgspec.structs.replace(running, driver="successor"))


def test_jobs_with_equal_names_have_different_keys(asking: Asking, job: StandIn) -> None:
    registry = Registry()
    (running,) = registry.records()
    other = JobConfig(JobId("job"), checkpoint_dir="/other").key
    registry.add(
        msgspec.structs.replace(running, driver="b", key=other, checkpoint_dir="/other", name="another")
    )
    assert asking.refused("/jobs/job") == (404, "'job' matches 2 jobs")
    assert asking.get(f"/jobs/{other}")["checkpoint_dir"] == "/other"
    assert asking.get("/jobs/another")["key"] == other


def test_changes_are_streamed_to_listeners(asking: Asking, job: StandIn) -> None:
    headers = {"Authorization": f"Bearer {VIEWER}"}
    path = f"/api/v1/jobs/{asking.key()}/events"
    with asking.client.stream("GET", path, headers=headers) as events:
        lines = events.iter_lines()
        assert next(lines) == "event: now"
        said = json.loads(next(lines).removeprefix("data: "))
        assert said["job"]["state"] == "running"
        assert said["metrics"]["attempt"] == 2


def test_openapi_describes_all_operations(asking: Asking) -> None:
    document = asking.client.get("/openapi.json").json()
    said = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert said == {(operation.method, operation.path) for operation in operations()}
    references = json.dumps(document).split('"#/components/schemas/')[1:]
    assert {each.split('"')[0] for each in references} <= set(document["components"]["schemas"])


def test_the_page_loads_nothing_from_other_hosts(asking: Asking) -> None:
    page = asking.client.get("/")
    assert page.status_code == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert asking.client.get("/healthz").json() == {"healthy": True}
