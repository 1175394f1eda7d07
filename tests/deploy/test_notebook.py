"""A real kernel runs the notebook of the examples, and cells that are changed, wrong and interrupted.
One kernel with one session runs all tests, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.waiting import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.deploy,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client"),
]

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
WITHIN_S = 400.0


@dataclass
class Ran:
    """Output of a cell."""

    printed: str = ""
    result: str = ""
    error: str = ""
    number: int = 0
    displays: list[dict[str, str]] = field(default_factory=list)
    """What it has displayed, by MIME type, and each change of that."""


@dataclass
class Notebook:
    manager: KernelManager
    client: BlockingKernelClient
    folder: Path
    """Where its cells run."""
    _asked: list[str] = field(default_factory=list)

    changed: list[dict[str, str]] = field(default_factory=list)
    """What displays of earlier cells have become."""

    def begin(self, cell: str) -> None:
        self._asked.append(self.client.execute(cell))

    def end(self) -> Ran:
        """Wait for the cell that was started."""
        ran, asked = Ran(), self._asked.pop()
        while True:
            message = self.client.get_iopub_msg(timeout=WITHIN_S)
            content = message["content"]
            if message["msg_type"] == "update_display_data":
                self.changed.append(content["data"])  # Of whichever cell runs, as a thread sends it.
            if message["parent_header"].get("msg_id") != asked:
                continue
            match message["msg_type"]:
                case "execute_input":
                    ran.number = content["execution_count"]
                case "stream":
                    ran.printed += content["text"]
                case "execute_result":
                    ran.result = content["data"]["text/plain"]
                case "display_data":
                    ran.displays.append(content["data"])
                case "error":
                    ran.error = f"{content['ename']}: {content['evalue']}"
                case "status" if content["execution_state"] == "idle":
                    return ran

    def run(self, cell: str) -> Ran:
        self.begin(cell)
        return self.end()

    def value(self, cell: str) -> str:
        ran = self.run(cell)
        assert ran.error == ""
        return ran.result


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("notebook")
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "kernel"))
    manager.start_kernel(cwd=str(folder))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=WITHIN_S)
        yield Notebook(manager, client, folder)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def test_the_notebook_of_the_examples_runs(notebook: Notebook) -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    ran = [notebook.run("".join(cell["source"])) for cell in cells]
    assert [one.error for one in ran] == [""] * len(cells)
    assert "20" in ran[1].result
    assert ran[3].printed.startswith("counting has run for ")
    assert "CANCELLED" in ran[4].result


CLASSES = """
@dataclass
class Row:
    k: int
    {name}: int

def made(visit: Visit) -> Row:
    return Row(visit.user % 2, {value})
"""

RUN = """
env = rh.Environment(parallelism=2, runtime={runtime!r})
env.from_source(rh.collection(VISITS)).map(made).collect("rows")
rows = env.execute("changed").collected["rows"]
{{name: sorted(rows[name].unique().to_pylist()) for name in rows.column_names}}
"""


def test_a_changed_cell_can_be_run_again(notebook: Notebook) -> None:
    for runtime in ("batch", "continuous"):
        for name, value in (("first", 1), ("second", 2)):
            notebook.run(CLASSES.format(name=name, value=value))
            assert (
                notebook.value(RUN.format(runtime=runtime)) == f"{{'k': [0, 1], '{name}': [{value}]}}"
            )


def test_jobs_run_within_an_event_loop(notebook: Notebook) -> None:
    cell = RUN.format(runtime="batch").replace(
        "\n{name", "\nimport asyncio; await asyncio.sleep(0)\n{name"
    )
    assert "'k'" in notebook.value(cell)


def test_errors_begin_with_the_cell_and_its_line(notebook: Notebook) -> None:
    for runtime in ("batch", "continuous"):
        wrong = notebook.run(
            "def divided(visit: Visit) -> Row:\n    return Row(1 // (visit.user - visit.user), 0)\n"
        )
        job = notebook.run(RUN.format(runtime=runtime).replace("made", "divided"))
        assert job.error.startswith(f"UserFunctionError: In[{wrong.number}]:2: operator 'map(divided)'")
        unknown = notebook.run("more = 1\nenv.from_source(rh.collection(VISITS)).select('x')")
        assert unknown.error.startswith(f"SchemaError: In[{unknown.number}]:2: ")


LIVE = """
live = rh.Environment(parallelism=1, runtime="continuous", checkpoint_interval="200ms")
numbers = rh.generator(lambda block: {"user": block.index() % 10}, rate_per_s=100, splits=1)
by_user = live.from_source(numbers, name="numbers").key_by("user")
by_user.running(n=rh.agg.count()).collect("counts")
counting = live.execute_async("counting")
counting
"""


def test_a_job_shows_its_diagram_and_updates_it(notebook: Notebook) -> None:
    shown = notebook.run(LIVE)
    assert shown.error == ""
    (first,) = shown.displays[:1]
    assert first["text/plain"].startswith("<Job 'counting' ")
    assert ">numbers</text>" in first["text/html"]
    notebook.run("import time\nwhile counting.status().checkpoints_completed < 1: time.sleep(0.1)")
    notebook.run("counting.cancel()")
    asked = "'rheos-notebook' in [t.name for t in __import__('threading').enumerate()]"
    wait_for(lambda: notebook.value(asked) == "False")
    changes = notebook.changed
    assert "cancelled" in changes[-1]["text/plain"]
    assert "cancelled for" in changes[-1]["text/html"]


ENDLESS = """
def begun(row) -> Row:
    open({path!r}, "w").close()
    return Row(1, 1)

endless = rh.Environment(parallelism=1, runtime="continuous")
numbers = rh.generator(lambda block: {{"user": block.index() % 10}}, rate_per_s=100, splits=1)
endless.from_source(numbers).map(begun).collect("rows")
endless.execute("endless")
"""

SLOW = """
def slowly(visit: Visit) -> Row:
    import time
    open({path!r}, "w").close()
    time.sleep(0.2)
    return Row(1, 1)

slow = rh.Environment(parallelism=1, runtime="batch")
slow.from_source(rh.collection(VISITS)).map(slowly).collect("rows")
slow.execute("slow")
"""


@pytest.mark.parametrize("cell", [ENDLESS, SLOW], ids=["continuous", "batch"])
def test_an_interrupt_cancels_the_job_and_the_next_one_runs(cell: str, notebook: Notebook) -> None:
    """Also where a worker is in the midst of a function that takes long."""
    running = "from rheos.ops.control.registry import Registry\nfrom pyspark.sql import SparkSession\n"
    jobs = "[record.name for record in Registry().records()]"
    at_work = "len(SparkSession.active().sparkContext.statusTracker().getActiveJobsIds())"
    notebook.run(running)
    begun = notebook.folder / f"begun-{len(cell)}"
    notebook.begin(cell.format(path=str(begun)))
    wait_for(begun.exists)
    notebook.manager.interrupt_kernel()
    assert notebook.end().error.startswith("KeyboardInterrupt")
    wait_for(lambda: notebook.value(jobs) == "[]")
    wait_for(lambda: notebook.value(at_work) == "0")
    assert "'k'" in notebook.value(RUN.format(runtime="continuous"))
    assert "'k'" in notebook.value(RUN.format(runtime="batch"))
