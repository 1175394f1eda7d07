"""Which input rows an output row came of: a program is run once more from a checkpoint, and watched."""
