"""Publication of the files of a sink: by rename, or by the procedure of each object store.

`contract.py` declares it. `schemes.py` chooses by the URL's scheme. docs/protocols/files-sink.md has
the invariants (FS1 to FS7).
"""
