"""Random worlds, each drawn from a seed: programs with their oracles, inputs and settings."""
