"""A setting that a page names is a link to its entry on the page of settings."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from rheos.api.settings import SETTINGS

ROOT = Path(__file__).parents[2]
PAGES = [
    path for path in sorted(ROOT.glob("docs/**/*.md")) if path.name not in ("settings.md", "api.md")
]


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_settings", ROOT / "scripts/site_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOK = hook()


def test_every_setting_has_an_anchor() -> None:
    page = HOOK.anchored(HOOK.PAGE.read_text())
    anchors = re.findall(r"\{ #([\w.]+) \}", page)
    assert len(anchors) == len({*anchors})
    assert {*SETTINGS} <= {*anchors}


def test_the_first_mention_in_a_section_is_a_link() -> None:
    text = """# Title with `credits`

Set `credits` or `credits=2`, and `checkpoints.retain`. [`latency`](tuning.md), ``a `credits` b``.

## Next

| `credits` | `unknown` | `state` |

```python
`credits`
```
"""
    assert (
        HOOK.linked(text, "../settings.md")
        == """# Title with `credits`

Set [`credits`](../settings.md#credits) or `credits=2`, and \
[`checkpoints.retain`](../settings.md#checkpoints.retain). [`latency`](tuning.md), ``a `credits` b``.

## Next

| [`credits`](../settings.md#credits) | `unknown` | `state` |

```python
`credits`
```
"""
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_of_a_page_lead_to_an_entry(page: Path) -> None:
    found = re.findall(r"\]\(settings\.md#([\w.]+)\)", HOOK.linked(page.read_text(), "settings.md"))
    assert {*found} <= HOOK.settings()


def test_the_pages_have_such_links() -> None:
    made = "".join(HOOK.linked(page.read_text(), "settings.md") for page in PAGES)
    assert {name for name in HOOK.settings() - HOOK.AMBIGUOUS if f"(settings.md#{name})" in made} > {
        "checkpoint_dir",
        "buffer_timeout",
        "min_parallelism",
    }
