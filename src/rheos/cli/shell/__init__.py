"""`rheos sql`: runs statements that are typed, or come from an option or a pipe."""
