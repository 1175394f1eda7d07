"""Messages and data between processes, and the ports through which the core accesses the outside.

`elements` are the contents of channels, `wire` their frames, `control` the messages between driver and
workers, `decoding` the bounded decoder of all messages. Errors are sent as data (`error_data`). `ports`
has the interfaces of clock, store, I/O executor and transport. `types`, `columns`, `casts`,
`plain_values` and `record_makers` convert between Python, Arrow and frames, exactly or with an error.
"""
