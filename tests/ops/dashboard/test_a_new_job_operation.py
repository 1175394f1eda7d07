"""A new job operation is a class in the table, and a method of the master. This test adds two."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import pytest
import zmq
from typer import Typer
from typer.testing import CliRunner

import rheos
from rheos.cli.operations import add_commands
from rheos.core.errors import ConfigurationError
from rheos.ops.control.command_messages import answer_decoder, encoded_request
from rheos.ops.control.commands import JobClient
from rheos.ops.control.registry import Registry
from rheos.ops.dashboard.openapi import document
from rheos.runtimes import job_operations
from rheos.runtimes.continuous.runtime import ContinuousJob
from rheos.runtimes.driver.driven_job import MasterDrivenJob
from rheos.runtimes.job_handle import JobHandle, WithoutCheckpoints
from rheos.runtimes.job_methods import JobMethods, JobReads
from rheos.runtimes.job_operations import (
    JOB_OPERATIONS,
    SavepointAnswer,
    answer_type,
)
from rheos.runtimes.operation_contract import (
    EVERYWHERE,
    Argument,
    DrivenJob,
    DriverOperation,
    JobOperation,
    Role,
    arguments_of,
    summary,
)
from rheos.runtimes.simulated.runtime import SimulatedJob
from tests.cli.stand_ins import StandIn
from tests.ops.dashboard.conftest import OPERATOR, VIEWER, Asking

T = TypeVar("T")

FILES_OF_A_NEW_OPERATION = ("runtimes/job_operations.py", "runtimes/driver/master.py")
"""The table with the operation's class, and the method that the class calls."""
CLASSES_AND_METHODS = {"runtimes/stored_reads.py", "runtimes/job_methods.py", "ops/control/commands.py"}


class ListThreads(DriverOperation[list[str]], frozen=True):
    """List the threads of the driver. Their names have a prefix."""

    name = "threads"
    starting: Annotated[str, Argument("The prefix.")] = ""
    most: Annotated[int, Argument("How many.", bounds={"ge": 1})] = 10

    def carry_out(self, job: Any) -> list[str]:
        return list(job.master.threads(self.starting, self.most))


class SetPace(DriverOperation[SavepointAnswer], frozen=True):
    """Set the pace of the job."""

    name = "pace"
    role = Role.OPERATE
    reports = False
    pause: Annotated[float, Argument("Time between two rows.", seconds=True)]
    label: Annotated[str, Argument("Its label.")] | None = None

    def carry_out(self, job: Any) -> SavepointAnswer:
        return SavepointAnswer(job.master.pace(self.pause, self.label))

    def text(self, answer: SavepointAnswer) -> str:
        return answer.directory


class ExtendedMaster:
    """Master with the methods that the two operations call."""

    def threads(self, starting: str, most: int) -> list[str]:
        return [name for name in ("main", "master", "other") if name.startswith(starting)][:most]

    def pace(self, pause: float, label: str | None) -> str:
        if pause > 60:
            raise ConfigurationError("the pause is too long", hint="set up to 60 s")
        return f"{label}: {pause:g} s"


STAND_IN_ASK = StandIn.ask


def answered_by(handle: type[JobHandle]) -> Any:
    """Return the `ask` of the handle for the two operations, and the stand-in's for all others."""

    def ask(self: Any, operation: DriverOperation[Any]) -> Any:
        new = isinstance(operation, ListThreads | SetPace)
        return handle.ask(self, operation) if new else STAND_IN_ASK(self, operation)

    return ask


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the operations before the job and the dashboard are made, as each reads the table then."""
    monkeypatch.setattr(job_operations, "JOB_OPERATIONS", (*JOB_OPERATIONS, ListThreads, SetPace))
    monkeypatch.setattr(StandIn, "master", ExtendedMaster(), raising=False)
    monkeypatch.setattr(StandIn, "ask", answered_by(MasterDrivenJob))


@pytest.fixture
def client(table: None, job: StandIn) -> JobClient:
    (record,) = Registry().records()
    return JobClient(record, 20)


def command(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a command that is derived from the table."""
    app = Typer()
    add_commands(app)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_a_new_operation_works_over_the_control_socket(client: JobClient) -> None:
    assert client.ask(ListThreads(starting="ma", most=1)) == ["main"]
    assert client.ask(SetPace(pause=0.5, label="slow")) == SavepointAnswer("slow: 0.5 s")
    with pytest.raises(ConfigurationError, match="the pause is too long") as caught:
        client.ask(SetPace(pause=61.0))
    assert caught.value.hint == "set up to 60 s"


def test_a_new_operation_has_a_route_with_its_role_and_is_audited(asking: Asking) -> None:
    key = asking.key()
    assert asking.get(f"/jobs/{key}/threads") == ["main", "master", "other"]
    assert asking.get(f"/jobs/{key}/threads?starting=ma&most=1") == ["main"]
    status, what = asking.refused(f"/jobs/{key}/threads?most=few")
    assert (status, what.partition(": ")[0]) == (400, "the arguments are not valid for 'threads'")
    assert asking.post(f"/jobs/{key}/pace", {"pause": 2, "label": "slow"}) == (
        200,
        {"directory": "slow: 2 s"},
    )
    assert asking.post(f"/jobs/{key}/pace", {"pause": 61})[1]["what"] == "the pause is too long"
    assert asking.post(f"/jobs/{key}/pace", {"pauses": 2})[0] == 400
    assert asking.post(f"/jobs/{key}/pace", {"pause": 2}, VIEWER)[0] == 403
    assert asking.refused("/jobs/another/threads", OPERATOR)[0] == 404
    assert [line["outcome"] for line in asking.audited()][:2] == ["asked for", "done"]


def test_a_new_operation_is_described_by_openapi() -> None:
    described = document()
    threads = described["paths"]["/api/v1/jobs/{job}/threads"]["get"]
    assert threads["summary"] == "List the threads of the driver"
    assert threads["description"] == "Needs the role 'look'."
    asked = {each["name"]: each.get("description") for each in threads["parameters"]}
    assert asked["starting"] == "The prefix."
    pace = described["paths"]["/api/v1/jobs/{job}/pace"]["post"]
    assert pace["description"] == "Needs the role 'operate'."
    body = described["components"]["schemas"]["PaceRequest"]
    assert set(body["properties"]) == {"pause", "label"}
    assert body["required"] == ["pause"]


@pytest.mark.usefixtures("job")
def test_a_new_operation_is_a_command() -> None:
    code, out, _ = command("threads", "job", "--starting", "ma")
    assert (code, json.loads(out)) == (0, ["main", "master"])
    assert command("pace", "job", "--pause", "500ms", "--label", "slow") == (0, "slow: 0.5 s\n", "")
    code, _, error = command("pace", "job", "--pause", "2m")
    assert (code, "the pause is too long" in error, "set up to 60 s" in error) == (2, True, True)
    assert command("pace", "job", "--pause", "long")[0] == 2
    assert command("pace", "job")[0] == 2
    assert "List the threads of the driver" in command("threads", "--help")[1]


def test_a_new_operation_is_refused_by_a_job_without_checkpoints(
    monkeypatch: pytest.MonkeyPatch, client: JobClient
) -> None:
    monkeypatch.setattr(StandIn, "ask", answered_by(WithoutCheckpoints))
    monkeypatch.setattr(StandIn, "_refused", WithoutCheckpoints._refused, raising=False)
    with pytest.raises(ConfigurationError, match="does not support threads"):
        client.ask(ListThreads())


class NotInTheTable(DriverOperation[list[str]], frozen=True):
    """Do anything at all."""

    name = "anything"


def test_an_operation_outside_the_table_gets_no_answer(client: JobClient) -> None:
    (record,) = Registry().records()
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(record.endpoint)
        socket.send(record.token.encode() + encoded_request(record.job, NotInTheTable()))
        while client.status().strangers == 0:
            pass
        assert not socket.poll(0)


# --- the complete table -------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", JOB_OPERATIONS, ids=lambda each: each.name)
def test_each_operation_declares_answer_arguments_and_summary(
    operation: type[JobOperation[Any]],
) -> None:
    assert answer_type(operation) is not None
    answer_decoder(operation)
    assert set(arguments_of(operation)) == {field.name for field in msgspec.structs.fields(operation)}
    assert summary(operation)
    assert [each.name for each in JOB_OPERATIONS].count(operation.name) == 1


def test_an_answer_without_a_declaration_is_refused() -> None:
    class Undeclared(DriverOperation[T], frozen=True):
        name = "undeclared"

        def carry_out(self, job: DrivenJob) -> T:
            raise NotImplementedError

    with pytest.raises(TypeError, match="Undeclared does not declare the type of its answer"):
        answer_type(Undeclared)


def test_a_field_without_a_declaration_is_refused() -> None:
    class Undeclared(DriverOperation[list[str]], frozen=True):
        name = "undeclared"
        path: str

    with pytest.raises(TypeError, match=r"Undeclared\.path does not declare its Argument"):
        arguments_of(Undeclared)


def test_each_general_operation_is_named_in_the_table_only() -> None:
    """Another file that names its class would be another place to change for a new operation."""
    source = Path(rheos.__file__).parent
    texts = {str(path.relative_to(source)): path.read_text() for path in source.rglob("*.py")}
    for operation in JOB_OPERATIONS:
        if operation.faces == EVERYWHERE:
            word = re.compile(rf"\b{operation.__name__}\b")
            naming = {path for path, text in texts.items() if word.search(text)}
            # A read of checkpoints is defined apart from the table, and some have a method for users.
            assert naming - CLASSES_AND_METHODS == {FILES_OF_A_NEW_OPERATION[0]}, naming


@pytest.mark.parametrize("handle", [ContinuousJob, SimulatedJob], ids=lambda each: each.__name__)
def test_runtimes_forward_operations_without_handling_them(handle: type[JobHandle]) -> None:
    """A runtime that answered some operations itself would be another place to change."""
    assert handle.ask is MasterDrivenJob.ask
    methods = vars(JobReads) | vars(JobMethods)
    derived = {name for name in methods if not name.startswith("_")} - {"ask"}
    assert not derived & set(vars(handle))
