"""CREATE MODEL and ML_PREDICT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rheos as rh
from rheos.core.errors import RheosError
from tests.sql.onnx_models import labels, linear, written
from tests.sql.script_rows import rows_of

_TABLE = """
    CREATE TABLE t (id BIGINT, km DOUBLE, channel STRING);
    INSERT INTO t VALUES (1, 2, 'web'), (2, NULL, 'app'), (3, 4, NULL);
"""


def double(features: Any) -> Any:
    return features[:, 0] * 2


def length(features: Any) -> Any:
    assert features.dtype == object
    return [len(name or "") for name in features[:, 0]]


@pytest.fixture
def models(tmp_path: Path) -> str:
    """Return the statements that create the models of the tests."""
    one, two = (
        written(tmp_path, linear(w), f"{n}.onnx") for n, w in enumerate(([[3.0]], [[1.0, 2.0, 3.0]]))
    )
    both = written(tmp_path, labels(), "labels.onnx")
    return f"""
        CREATE MODEL one INPUT (x DOUBLE COMMENT 'km') OUTPUT (y DOUBLE) COMMENT 'a line'
            WITH ('provider' = 'onnx', 'path' = '{one}', 'task' = 'regression');
        CREATE TEMPORARY MODEL IF NOT EXISTS split INPUT (x INT) OUTPUT (a FLOAT, b FLOAT, c BIGINT)
            WITH ('provider' = 'onnx', 'path' = '{two}');
        CREATE MODEL listed INPUT (x INT) OUTPUT (id ARRAY<DOUBLE>)
            WITH ('provider' = 'onnx', 'path' = '{two}');
        CREATE MODEL labels INPUT (channel STRING, amount DOUBLE) OUTPUT (score DOUBLE, label BIGINT)
            WITH ('provider' = 'onnx', 'path' = '{both}');
        CREATE MODEL doubled INPUT (x DOUBLE) OUTPUT (y DOUBLE)
            WITH ('provider' = 'python', 'function' = 'tests.sql.test_models.double');
        CREATE MODEL length INPUT (name STRING) OUTPUT (n BIGINT)
            WITH ('provider' = 'python', 'function' = 'tests.sql.test_models.length');
    """


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT id, y FROM ML_PREDICT(TABLE t, MODEL one, DESCRIPTOR(id))", [(1, 3), (2, 6), (3, 9)]),
        (
            "SELECT t.id, y + 1 FROM TABLE(ML_PREDICT(INPUT => TABLE t, MODEL => MODEL one, "
            "ARGS => DESCRIPTOR(km), CONFIG => MAP['async', 'true'])) t WHERE id <> 2",
            [(1, 7), (3, 13)],
        ),
        (
            "SELECT id, a, b, c FROM "
            "ML_PREDICT(TABLE t, MODEL split, DESCRIPTOR(CAST(id AS INT))) WHERE c > 3",
            [(2, 2, 4, 6), (3, 3, 6, 9)],
        ),
        (
            "SELECT id, id0 FROM ML_PREDICT(TABLE (SELECT id FROM t), MODEL listed, "
            "DESCRIPTOR(CAST(id AS INT)))",
            [(1, [1, 2, 3]), (2, [2, 4, 6]), (3, [3, 6, 9])],
        ),
        # A string without a value has no prediction; a number without one is NaN.
        (
            "SELECT id, label, score > 3 FROM ML_PREDICT(TABLE t, MODEL labels, "
            "DESCRIPTOR(channel, km)) WHERE id <> 2",
            [(1, 1, True), (3, None, None)],
        ),
        (
            "SELECT id, ISNAN(y) FROM ML_PREDICT(TABLE t, MODEL doubled, DESCRIPTOR(km))",
            [(1, False), (2, True), (3, False)],
        ),
        (
            "SELECT id, n FROM ML_PREDICT(TABLE t, MODEL length, DESCRIPTOR(channel))",
            [(1, 3), (2, 3), (3, 0)],
        ),
        (
            "SELECT a.id, a.y, b.y FROM ML_PREDICT(TABLE t, MODEL one, DESCRIPTOR(id)) AS a "
            "JOIN ML_PREDICT(TABLE t, MODEL doubled, DESCRIPTOR(id)) AS b ON a.id = b.id",
            [(1, 3, 2), (2, 6, 4), (3, 9, 6)],
        ),
    ],
)
def test_predictions_become_columns(models: str, query: str, rows: list[Any]) -> None:
    [found] = rows_of(f"{_TABLE} {models} {query};")
    assert found == rows


def test_a_retracted_row_has_the_prediction_of_its_insertion(models: str) -> None:
    [found] = rows_of(f"""
        {_TABLE} {models}
        CREATE VIEW n AS SELECT channel, COUNT(*) AS n FROM t GROUP BY channel;
        CREATE VIEW p AS SELECT y FROM ML_PREDICT(TABLE n, MODEL one, DESCRIPTOR(n));
        INSERT INTO t VALUES (4, 1, 'web'), (5, 1, 'web'), (6, 1, 'app');
        SELECT y, COUNT(*) FROM p GROUP BY y;
    """)
    assert found == [(3.0, 1), (6.0, 1), (9.0, 1)]


def test_rows_with_retractions_are_predicted_one_by_one() -> None:
    batches: list[int] = []

    def counted(features: Any) -> Any:
        batches.append(len(features))
        return features[:, 0]

    env = rh.Environment(runtime="simulated")
    rows = [{"k": i % 5, "v": i} for i in range(40)]
    env.register("t", env.from_source(rh.collection(rows), name="t"))
    env.register_model("counted", counted, inputs={"x": float}, outputs={"y": float})
    appended = "SELECT y FROM ML_PREDICT(TABLE t, MODEL counted, DESCRIPTOR(v))"
    env.sql(appended).collect("appended")
    env.execute("appended")
    assert max(batches) > 1, "rows of an append-only table are predicted in batches"
    batches.clear()
    env = rh.Environment(runtime="simulated")
    env.register("t", env.from_source(rh.collection(rows), name="t"))
    env.register_model("counted", counted, inputs={"x": float}, outputs={"y": float})
    env.sql_script("CREATE VIEW g AS SELECT n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)")
    env.sql("SELECT y FROM ML_PREDICT(TABLE g, MODEL counted, DESCRIPTOR(n))").collect("changing")
    env.execute("changing")
    assert {*batches} == {1}


def test_statements_about_models(models: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = rh.Environment(runtime="simulated")
    env.register_model("p", np.sum, inputs={"a": float}, outputs={"b": int})
    env.sql_script(
        f"""{models}
        CREATE MODEL IF NOT EXISTS one INPUT (x DOUBLE) OUTPUT (y DOUBLE)
            WITH ('provider' = 'onnx', 'path' = 'none');
        DROP MODEL doubled; DROP TEMPORARY MODEL IF EXISTS doubled;
        SHOW MODELS; SHOW MODELS LIKE 'l%'; DESCRIBE MODEL labels; SHOW CREATE MODEL p;
        SHOW CREATE MODEL length"""
    )
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        *("p", "one", "split", "listed", "labels", "length", "listed", "labels", "length"),
        *("channel  STRING, input", "amount   DOUBLE, input"),
        *("score    DOUBLE, output", "label    BIGINT, output", "Python has registered this model"),
        "CREATE MODEL length INPUT (name STRING) OUTPUT (n BIGINT)",
        "WITH ('provider' = 'python', 'function' = 'tests.sql.test_models.length')",
    ]


_ONE = "CREATE MODEL m INPUT (x DOUBLE) OUTPUT (y DOUBLE) WITH ('provider' = 'onnx', 'path' = '{}');"


@pytest.mark.parametrize(
    ("script", "what", "place"),
    [
        ("CREATE MODEL m INPUT (x INT) WITH ('provider' = 'onnx')", "the columns of its OUTPUT", "m"),
        (
            _ONE.format("none.onnx"),
            "cannot be read: No such file or directory: none.onnx",
            "'none.onnx",
        ),
        (_ONE.format(__file__), "are not an ONNX model", "'/"),
        (
            "CREATE MODEL m INPUT (x INT) OUTPUT (y INT) WITH ('provider' = 'sklearn', 'path' = 'a')",
            "files of sklearn are not loaded",
            "'sklearn'",
        ),
        (
            "CREATE MODEL m INPUT (x INT) OUTPUT (y INT) WITH ('provider' = 'onx', 'path' = 'a')",
            "unknown provider 'onx'",
            "'onx'",
        ),
        (_ONE.replace("path", "paht"), "unknown option 'paht'", "'{}'"),
        (
            "CREATE MODEL m INPUT (x DOUBLE, z INT) OUTPUT (y DOUBLE) WITH ('provider' = 'onnx', "
            "'path' = '{three}')",
            "the model takes 1 values per row as 'x', but 2 are declared: x, z",
            "'/",
        ),
        (
            "CREATE MODEL m INPUT (x STRING) OUTPUT (y DOUBLE) WITH ('provider' = 'onnx', "
            "'path' = '{three}')",
            "the model takes numbers as 'x', but the input 'x' is string",
            "'/",
        ),
        (_ONE.format("{three}"), "3 values per row as 'y', but the output 'y' is one double", "'/"),
        (
            "CREATE MODEL m INPUT (x DOUBLE) OUTPUT (y DOUBLE, z DOUBLE) WITH ('provider' = 'onnx', "
            "'path' = '{three}')",
            "returns 3 values per row as 'y', but 2 outputs are declared",
            "'/",
        ),
        (
            "CREATE MODEL m INPUT (x TIMESTAMP(3)) OUTPUT (y INT) WITH ('provider' = 'python', "
            "'function' = 'tests.sql.test_models.double')",
            "the input 'x' is timestamp",
            "'tests",
        ),
        (
            "{one} SELECT * FROM ML_PREDICT(TABLE t, MODEL n, DESCRIPTOR(id))",
            "unknown model 'n'",
            "n",
        ),
        (
            "{one} SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(id, km))",
            "the model m takes 1 columns, but 2 are named",
            "DESCRIPTOR",
        ),
        (
            "{one} SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(channel))",
            "ML_PREDICT() takes DOUBLE as 'x'",
            "channel",
        ),
        ("{one} SELECT * FROM ML_PREDICT(TABLE t, MODEL m)", "ML_PREDICT is missing ARGS", "ML_P"),
        ("{one} {one}", "the model 'm' already exists", "m"),
        ("DROP MODEL m", "unknown model 'm'", "m"),
        ("ALTER MODEL m SET ('path' = 'b')", "a model is not altered", "ALTER"),
    ],
)
def test_mistakes_are_errors_at_their_place(script: str, what: str, place: str, tmp_path: Path) -> None:
    three = written(tmp_path, linear([[1.0, 2.0, 3.0]]))
    one = written(tmp_path, linear([[1.0]]), "one.onnx")
    text = script.replace("{one}", _ONE.format(one)).replace("{three}", str(three))
    with pytest.raises(RheosError) as caught:
        rows_of(f"{_TABLE} {text}")
    assert what in caught.value.what
    assert caught.value.detail is not None
    line, marks = caught.value.detail.splitlines()[:2]
    assert line[marks.index("^") :].startswith(place)
    assert caught.value.hint


def test_a_model_that_returns_another_width_is_an_error_of_the_model() -> None:
    env = rh.Environment(runtime="simulated")
    env.register("t", env.from_source(rh.collection([{"x": 1.0}, {"x": 2.0}]), name="t"))
    env.register_model("m", lambda f: np.ones((len(f), 3)), inputs={"x": float}, outputs={"y": float})
    env.sql("SELECT y FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(x))").collect("y")
    with pytest.raises(RheosError, match=r"returned \d x 3 for \d rows"):
        env.execute("wide")
