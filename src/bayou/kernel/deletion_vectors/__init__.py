"""Deletion vectors (PROTOCOL.md, Deletion Vectors): reading, prefetching and writing.

`read` decodes one, `prefetch` reads those of many files at once, `write` writes them.
"""
