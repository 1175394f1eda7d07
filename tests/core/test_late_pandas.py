"""pandas is imported when something uses it, and Arrow converts its objects as it would without us."""

from __future__ import annotations

import subprocess
import sys

import pytest

POSTPONED = """
import sys
import rheos.core.protocol.elements
import pyarrow as pa
assert pa.array([1, None], pa.int32()).to_pylist() == [1, None]
assert pa.scalar({"a": [1.5]}).as_py() == {"a": [1.5]}
assert "pandas" not in sys.modules
"""


@pytest.mark.parametrize(
    "use",
    [
        "import pandas as pd; assert pa.array(pd.Series([1.0, float('nan')])).null_count == 1",
        "import pandas as pd; assert pa.types.is_dictionary(pa.array(pd.Categorical(['a'])).type)",
        "import pandas as pd; assert pa.Table.from_pandas(pd.DataFrame({'n': [1]})).num_rows == 1",
        "import pandas as pd; assert pa.table(pd.DataFrame({'n': [1]})).column_names == ['n']",
        "assert pa.table({'n': [1]}).to_pandas()['n'].sum() == 1",
        "assert pa.array([1], pa.timestamp('ns')).to_pylist()[0].nanosecond == 1",
        "assert pa.array([1], pa.duration('ns')).to_pylist()[0].nanoseconds == 1",
        "from importlib.util import find_spec; find_spec('pandas'); import pandas as pd; "
        "assert pa.array(pd.Series([1.0, None])).null_count == 1",
        "import importlib, pandas as pd; importlib.reload(pd); "
        "assert pa.array(pd.Series([1])) == pa.array([1])",
    ],
)
def test_what_uses_pandas_finds_it(use: str) -> None:
    program = f"{POSTPONED}\n{use}\nassert 'pandas' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_pandas_that_is_already_imported_stays() -> None:
    program = (
        "import pandas as pd, pyarrow as pa, rheos.core.protocol.elements; "
        "assert pa.array(pd.Series([1.0, None])).null_count == 1"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_pandas_that_fails_is_an_error_of_its_import() -> None:
    program = f"{POSTPONED}\nsys.path[:] = []\nimport pandas"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr.endswith("ModuleNotFoundError: No module named 'pandas'\n")
