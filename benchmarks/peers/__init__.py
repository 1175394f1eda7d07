"""Programs of other systems that mean the same as those in `rheos.cli.benchmarks`."""
