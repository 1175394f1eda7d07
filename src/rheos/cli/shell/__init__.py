"""`rheos sql`: statements by hand, from a file, or from a pipe."""
