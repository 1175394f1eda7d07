"""The walk of docs/views.md: its files written, its commands run, on a real local Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rheos.ops.control.registry import Registry
from tests.docs.walks import WITHIN_S, Shell, has_checkpoint, steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "views.md"


@pytest.mark.spark
@pytest.mark.deploy
def test_the_walk_of_the_page_runs(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text(sql_of_page())
    printed: dict[str, str] = {}
    for step in steps(PAGE):
        if step.file is not None:
            (tmp_path / step.file).write_text(step.code)
            continue
        printed[step.code] = shell.run(step.code)
        if step.code.endswith("&\n"):
            wait_for(lambda: any(map(has_checkpoint, Registry().records())), WITHIN_S)
    assert Registry().records() == []
    (looks,) = [text for code, text in printed.items() if code.startswith("rheos views")]
    assert re.search(r"^7 +\d+ +\d+$", looks, re.MULTILINE)
    assert re.search(r"\(1 row of checkpoint \d+, [-\d]+ [:\d]+ UTC\)", looks)
    assert re.search(r"^page  n$", looks, re.MULTILINE)
    assert "pages  clicks" in looks
    assert "average" in looks
    (python,) = [text for code, text in printed.items() if code.startswith("python")]
    assert "page: int64" in python
    (after,) = [text for code, text in printed.items() if code.startswith("rheos stop")]
    assert "clicks" in after


def sql_of_page() -> str:
    found = re.search(r"<!-- file: shop.sql -->\n```sql\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert found is not None
    return found[1]
