"""The generated dashboard and alerting rules: expressions parse, and name only declared metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from typer.testing import CliRunner

from rheos.cli.main import app
from rheos.core.metrics.declarations import METRICS, Kind, Metric
from rheos.core.metrics.health import HealthState
from rheos.ops.export.alert_rules import alert_rules, rule_file
from rheos.ops.export.grafana import WIDTH, dashboard
from rheos.ops.export.metric_labels import label_names, sample_name
from rheos.runtimes.health.kinds import KINDS

prometheus = pytest.importorskip("rheos.ops.export.prometheus")

BY_SAMPLE = {sample_name(metric): metric for metric in METRICS.values()}


def panels() -> Iterator[dict[str, Any]]:
    """Yield every panel, including those inside rows, without the rows."""
    for panel in dashboard()["panels"]:
        yield from panel.get("panels", [])
        if panel["type"] != "row":
            yield panel


def of_panels() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["expr"] for each in dashboard()["annotations"]["list"])


def plain(expression: str) -> str:
    """Return an expression of a dashboard with its variables filled in as Grafana does."""
    filled = expression.replace("$__rate_interval", "5m").replace("$job", "orders|visits")
    assert "$" not in filled
    return filled


def selectors(node: Any) -> Iterator[promql_parser.VectorSelector]:
    """Yield all selectors of an expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
        return
    for name in ("expr", "vector_selector", "lhs", "rhs"):
        if (inner := getattr(node, name, None)) is not None:
            yield from selectors(inner)
    args = getattr(node, "args", None)
    for each in getattr(args, "args", args) or ():
        yield from selectors(each)


def checked(expression: str) -> list[Metric]:
    """Parse an expression, check its labels, and return the metrics that it uses."""
    parsed = promql_parser.parse(expression)
    used = []
    for selector in selectors(parsed):
        assert selector.name in BY_SAMPLE, f"no metric {selector.name} is declared: {expression}"
        metric = BY_SAMPLE[selector.name]
        used.append(metric)
        labels = {*label_names(metric), "le"}
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels
    grouped = {
        label for found in re.findall(r"by \(([^)]*)\)", expression) for label in found.split(", ")
    }
    for metric in used:
        extra = {"le"} if metric.kind is Kind.HISTOGRAM else set()
        assert grouped <= {*label_names(metric), *extra}, expression
    assert used, expression
    return used


def test_dashboard_expressions_parse_and_name_declared_metrics() -> None:
    used = [metric for expression in of_panels() for metric in checked(plain(expression))]
    assert set(used) == set(METRICS.values()), "a declared metric has no panel"


def test_an_undeclared_metric_or_label_is_noticed() -> None:
    with pytest.raises(AssertionError, match="no metric rheos_nothing is declared"):
        checked('sum by (job) (rheos_nothing{job="a"})')
    with pytest.raises(AssertionError):
        checked('sum by (operator) (rheos_uptime_s{job="a"})')
    with pytest.raises(AssertionError):
        checked('rheos_uptime_s{operator="a"}')
    with pytest.raises(ValueError, match=r"."):
        checked("sum by (job (rheos_uptime_s)")


def test_grafana_can_import_the_dashboard() -> None:
    made = json.loads(json.dumps(dashboard()))
    everything = [*made["panels"], *(each for row in made["panels"] for each in row.get("panels", []))]
    ids = [panel["id"] for panel in everything]
    assert len(set(ids)) == len(ids)
    assert {panel["type"] for panel in everything} == {"row", "stat", "timeseries"}
    for panel in everything:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= WIDTH
        assert at["h"] > 0
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            refs = [target["refId"] for target in panel["targets"]]
            assert len(set(refs)) == len(refs) > 0
    assert [each["name"] for each in made["templating"]["list"]] == ["datasource", "job"]
    for key in ("uid", "title", "schemaVersion", "time", "refresh", "tags", "timezone"):
        assert made[key]


def test_panels_do_not_overlap() -> None:
    made = dashboard()["panels"]
    open_now = [panel for panel in made if panel["type"] != "row" or not panel["panels"]]
    for row in [open_now, *(panel["panels"] for panel in made if panel.get("panels"))]:
        cells = [
            (x, y)
            for at in (panel["gridPos"] for panel in row)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ]
        assert len(set(cells)) == len(cells)


def test_rule_expressions_parse_and_name_declared_metrics() -> None:
    for rule in alert_rules():
        assert checked(rule.expr)


def test_each_health_state_and_finding_kind_has_a_rule() -> None:
    names = [rule.alert for rule in alert_rules()]
    assert len(set(names)) == len(names) == len(HealthState) - 1 + len(KINDS) + 1
    matched = {kind for kind in KINDS for rule in alert_rules() if f'"{kind.value}"' in rule.expr}
    assert matched == set(KINDS)


def test_the_rule_file_contains_the_rules() -> None:
    read = yaml.safe_load(rule_file())
    (group,) = read["groups"]
    assert (group["name"], len(group["rules"])) == ("rheos", len(alert_rules()))
    for rule, shown in zip(alert_rules(), group["rules"], strict=True):
        assert shown == {
            "alert": rule.alert,
            "expr": rule.expr,
            "for": f"{rule.for_s}s",
            "labels": {"severity": rule.severity},
            "annotations": {"summary": rule.summary, "description": rule.description},
        }
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", rule.alert)
        # Prometheus treats these as Go templates.
        assert re.findall(r"\{\{.*?\}\}", rule.summary + rule.description) == ["{{ $labels.job }}"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rule_file(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(rule_file())
    command = ["promtool", "check", "rules", str(rules)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_metric_names_equal_the_exported_names() -> None:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    families = {
        Kind.COUNTER: CounterMetricFamily,
        Kind.GAUGE: GaugeMetricFamily,
        Kind.HISTOGRAM: HistogramMetricFamily,
    }
    for metric in METRICS.values():
        name, meaning = prometheus._head(metric)
        family = families[metric.kind](name, meaning, labels=label_names(metric))
        values = ["x"] * len(label_names(metric))
        if metric.kind is Kind.HISTOGRAM:
            family.add_metric(values, [("+Inf", 1.0)], 1.0)
        else:
            family.add_metric(values, 1.0)
        assert sample_name(metric) in {sample.name for sample in family.samples}


def test_the_command_prints_dashboard_and_rules() -> None:
    printed = CliRunner().invoke(app, ["monitoring", "grafana"])
    assert json.loads(printed.stdout) == dashboard()
    printed = CliRunner().invoke(app, ["monitoring", "alerts"])
    assert printed.stdout == rule_file()
