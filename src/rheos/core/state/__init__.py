"""State: how it is partitioned, declared, kept and stored.

Key groups partition keyed state (`key_groups`). Each backend stores three forms of state: a value, a
list or a dict per key (`stores`). `kinds/` builds the kinds of declared state on the stores. `memory`
and `rocksdb/` are the backends, `columnar/` keeps declared values as arrays. `key_index` assigns keys
to the slots of columnar state. `expiry` and `stamps` implement time to live, `timers` event-time and
processing-time timers. `codec` encodes values by their declared type, `format` is the format of
snapshot files.
"""
