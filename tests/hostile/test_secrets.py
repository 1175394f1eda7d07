"""Credentials in URLs are never shown."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rheos as rh
from rheos.cli.main import app
from rheos.core.checkpoint.decision_log import text_of
from rheos.core.checkpoint.events import ReadSavepoint
from rheos.core.checkpoint.log_entries import Origin
from rheos.core.errors import CheckpointError, ConfigurationError, unexpected
from rheos.core.protocol.error_data import ErrorData, encode
from rheos.core.protocol.ids import JobId
from rheos.core.redaction import redacted
from rheos.ops.control.commands import JobClient
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.ops.control.registry import Registry, find_job
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.job import JobConfig
from rheos.testing.memory import MemorySink
from tests.cli.stand_ins import StandIn, outline

URL = "s3://AKIA7:wJal/rXUt+n@FEMI@bucket/jobs?token=hunter2&v=1"
SHOWN = "s3://***@bucket/jobs?token=***&v=1"
SECRETS = ("AKIA7", "wJal", "rXUt", "FEMI", "hunter2")


@dataclass
class Number:
    n: int


class RemoteSink(MemorySink):
    def describe(self) -> str:
        return f"rows in {URL}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (URL, SHOWN),
        (f"the folder {URL!r} is gone", f"the folder {SHOWN!r} is gone"),
        (f"{URL}, {URL}", f"{SHOWN} {SHOWN}".replace(" ", ", ")),
        ("https://user@host:8080/x", "https://***@host:8080/x"),
        ("https://:secret@host", "https://***@host"),
        (
            "abfs://a@account/x?sv=2&sig=a%2Fb&X-Amz-Signature=c",
            "abfs://***@account/x?sv=2&sig=***&X-Amz-Signature=***",
        ),
        ("simplecache::s3://k:s@bucket/x", "simplecache::s3://***@bucket/x"),
        ("s3://bucket/a@b?part=1", "s3://bucket/a@b?part=1"),
        ("http://localhost:9000/x", "http://localhost:9000/x"),
        ("/data/a:b@c?token=no-url", "/data/a:b@c?token=no-url"),
        ("", ""),
    ],
)
def test_strings_are_redacted(text: str, expected: str) -> None:
    assert redacted(text) == expected
    assert redacted(expected) == expected


def test_errors_contain_no_credentials() -> None:
    cause = OSError(f"cannot connect to {URL}")
    error = CheckpointError(
        f"{URL!r} could not be read: {cause}", hint=f"look at {URL}", detail=f"in {URL}"
    )
    shown = [str(error), repr(error), str(ErrorData.of(error)), str(encode(ErrorData.of(error)))]
    shown.append(str(unexpected(cause)))
    with pytest.raises(ConfigurationError) as caught:
        open_store(URL.replace("s3", "ftp"))
    shown.append(str(caught.value))
    assert [text for text in shown if any(secret in text for secret in SECRETS)] == []
    assert str(error).splitlines()[0] == f"{SHOWN!r} could not be read: cannot connect to {SHOWN}"


def test_reprs_contain_no_credentials() -> None:
    env = rh.Environment(2, checkpoint_dir=URL, from_savepoint=f"{URL}/savepoint", runtime="simulated")
    numbers = env.from_source(rh.files.source(f"{URL}/in", schema=Number))
    numbers.sink_to(RemoteSink())
    operators = [operator.name for operator in env.plan().operators()]
    assert operators == [f"files {SHOWN}/in", f"rows in {SHOWN}"]
    settings = rh.Settings(checkpoint_dir=URL, parallelism=2)
    assert repr(settings).startswith("Settings(parallelism=2, max_parallelism=128")
    assert f"checkpoint_dir={SHOWN!r}" in repr(settings)
    shown = [repr(settings), repr(env), str(env.explain()), *operators]
    shown.append(repr(JobConfig(job=JobId("job"), checkpoint_dir=URL, from_savepoint=URL)))
    shown.append(repr(Origin("7", URL)))
    shown.append(text_of(ReadSavepoint(URL, True)))
    assert [text for text in shown if any(secret in text for secret in SECRETS)] == []


def test_the_record_of_a_job_contains_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    job = StandIn()
    job.allowed.set()
    controlled = ControlledJob(
        job, outline("job"), JobConfig(job=JobId("job"), checkpoint_dir=URL), "continuous"
    )
    try:
        [record] = tmp_path.rglob("*.json")
        facts = record.stat().st_mode, record.parent.stat().st_mode
        assert tuple(map(stat.S_IMODE, facts)) == (0o600, 0o700)
        shown = [record.read_text(), str(Registry().records()[0])]
        shown.append(str(JobClient(Registry().records()[0], 20).settings()))
        for arguments in (["jobs"], ["jobs", "--json"]):
            shown.append(CliRunner().invoke(app, arguments).stdout)
            assert SHOWN in shown[-1]
        assert [text for text in shown if any(secret in text for secret in SECRETS)] == []
        # A job is named by its directory all the same.
        for place in (URL, SHOWN):
            assert find_job(f"job@{place}", Registry().records()).job == "job"
    finally:
        job.over.set()
        controlled.wait()
