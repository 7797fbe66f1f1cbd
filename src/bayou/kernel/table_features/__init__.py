"""Table features (PROTOCOL.md, Table Features): what each asks of readers and writers.

`reader_support` and `writer_support` decide whether a table can be read or written.
"""
