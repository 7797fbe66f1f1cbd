"""Table features (PROTOCOL.md, Table Features): the requirements of each on readers and writers.

Start at `reader_support` and `writer_support`, which check whether a table can be read or written.
"""
