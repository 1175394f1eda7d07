"""What the programs of docs/coming-from.md are run with on engines that are not ours."""
