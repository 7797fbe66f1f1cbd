"""Table features (PROTOCOL.md, Table Features), and what they require of readers and writers.

Start reading at `reader_support` and `writer_support`, which check whether a table can be read or
written.
"""
