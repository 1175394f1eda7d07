"""What looks at jobs, running or stored: control, dashboard, savepoints, lineage, debugging, forks.

Nothing below imports it."""
