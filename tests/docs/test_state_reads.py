"""The walk of docs/state-reads.md: its files written, its commands run, on a real local Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rheos.ops.control.registry import Registry
from tests.docs.walks import WITHIN_S, Shell, has_checkpoint, steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "state-reads.md"


@pytest.mark.spark
@pytest.mark.deploy
def test_the_walk_of_the_page_runs(shell: Shell, tmp_path: Path) -> None:
    printed: dict[str, str] = {}
    for step in steps(PAGE):
        if step.file is not None:
            (tmp_path / step.file).write_text(step.code)
            continue
        printed[step.code.split("\n")[0]] = shell.run(step.code)
        if step.code.endswith("&\n"):
            wait_for(lambda: any(map(has_checkpoint, Registry().records())), WITHIN_S)
    assert Registry().records() == []
    looks = printed["rheos states shop"]
    assert "sessions.recent" in looks
    assert re.search(r"^customer +map_key +value$", looks, re.MULTILINE)
    assert re.search(r"^7 +small +\d+$", looks, re.MULTILINE)
    assert re.search(r"\(1 row of checkpoint \d+, [-\d]+ [:\d]+ UTC\)", looks)
    python = printed["python look.py"]
    assert re.search(r"^\[\{'customer': 7, 'value': \d+\}\] of checkpoint \d+", python, re.MULTILINE)
    assert python.count("a page of 4\n") == 2
    assert re.search(r"^\[\{'customers': 10, 'amount': \d+\}\]$", python, re.MULTILINE)
    assert re.search(r"^ *7 +\d+$", python, re.MULTILINE)
    (own,) = [text for code, text in printed.items() if "shop@checkpoints" in code]
    assert re.search(r"^7 +\d+$", own, re.MULTILINE)
