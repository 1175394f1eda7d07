"""Tools for running and stored jobs: control, dashboard, savepoints, lineage, debugging, forks.

Nothing below imports them.
"""
