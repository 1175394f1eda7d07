"""The API of programs: `Environment`, streams and functions.

A stream is a place in a graph of frozen nodes (`streams`, `keyed_stream`, `windowed_stream`,
`connected_streams`). Each method checks its arguments, derives output types from annotations, and adds
a node with the user's file and line, through `transformations`. The methods of `DataStream` are in the
modules `*_methods` and in `partitioning`. `settings` lists all settings; `partial_settings` merges the
places that set them, and `resolve` checks each value and converts it for the runtimes. `overrides` has
the settings of a command. `program_file` runs a file of a program, or only collects what it builds.
"""
