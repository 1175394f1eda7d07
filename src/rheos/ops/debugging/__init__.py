"""Replay of one key of a job under a debugger. Its state comes from a checkpoint, and its rows are read
from the sources' positions in that checkpoint. The operator is called for them step by step."""
