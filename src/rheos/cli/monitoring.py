"""Output of `rheos monitoring`: files for Grafana and Prometheus."""

from __future__ import annotations

import json

from rheos.cli.terminal import say_lines


def show_dashboard() -> int:
    """Print the dashboard for Grafana."""
    from rheos.ops.export.grafana import dashboard

    print(json.dumps(dashboard(), indent=2))
    return 0


def show_alerts() -> int:
    """Print the alerting rules for Prometheus."""
    from rheos.ops.export.alert_rules import rule_file

    say_lines(rule_file().rstrip())
    return 0
