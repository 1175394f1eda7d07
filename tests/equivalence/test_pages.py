"""Every program of the documentation agrees with its golden, on every runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equivalence import pages
from tests.equivalence.compare import difference
from tests.equivalence.corpus.program import Golden, View
from tests.equivalence.printed import outputs_of, with_outputs

ON_SPARK = {"README.md", "docs/guide.md"}
"""In every run. The others are simulated in every run, and the corpus has programs of their kind."""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("page", "runtime"),
    [
        pytest.param(
            page,
            runtime,
            marks=[pytest.mark.slow] * (runtime != "simulated" and page not in ON_SPARK),
        )
        for page in sorted(pages.GOLDENS)
        for runtime in pages.RUNTIMES
    ],
)
def test_the_jobs_of_a_page_agree_with_their_goldens(
    page: str, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed: list[str] = []
    ran = pages.run(page, runtime, printed)
    wanted = {
        job: of
        for job, of in pages.GOLDENS[page]().items()
        if runtime == "simulated" or not of.as_written
    }
    # A new job on the page needs a golden, and a removed one leaves one too many.
    assert {job.job for job in ran} == set(wanted)
    wrong = []
    for job in ran:
        of = wanted[job.job]
        assert set(job.collected) == set(of.collected), job.job
        for sink, table in job.collected.items():
            what = difference(table, of.collected[sink], of.views.get(sink))
            wrong += [] if what is None else [f"{job.job!r}: {sink}: {what}"]
    written = {
        str(file.parent.relative_to(tmp_path))
        for file in tmp_path.glob("out/*/[!.]*")
        if file.is_file()
    }
    files: dict[str, tuple[Golden, View | None]] = {
        folder: (golden, of.views.get(folder))
        for of in wanted.values()
        for folder, golden in of.files.items()
    }
    assert written == {folder for folder in files if folder.startswith("out/")}
    for folder, (golden, view) in files.items():
        what = difference(pages.files_in(tmp_path / folder), golden, view)
        wrong += [] if what is None else [f"{folder}: {what}"]
    assert not wrong, "\n".join(wrong)
    if runtime == "simulated" and outputs_of(pages.ROOT / page):
        text = (pages.ROOT / page).read_text()
        assert text == with_outputs(text, printed), "write it: python -m tests.equivalence.printed"


def test_every_page_with_programs_is_in_the_corpus_or_states_why_not() -> None:
    assert set(pages.pages()) == set(pages.GOLDENS) | set(pages.ELSEWHERE)
    for page in pages.GOLDENS:
        assert len(pages.blocks(page)) == (pages.ROOT / page).read_text().count("```python") > 0
