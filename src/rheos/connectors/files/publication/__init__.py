"""How files of a sink become visible: by rename, or by each object store's own way.

`contract.py` declares it. `choice.py` chooses by the URL's scheme. docs/protocols/files-sink.md has the
invariants (FS1 to FS7).
"""
