"""Tools for running and stored jobs: control, dashboard, savepoints, lineage, debugging, forks.

Lower packages do not import them.
"""
