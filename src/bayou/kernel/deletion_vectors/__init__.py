"""Deletion vectors (PROTOCOL.md, Deletion Vectors): reading, prefetching and writing.

Start reading at `read`, which decodes one vector. `prefetch` reads the vectors of many files
together, and `write` writes new vectors.
"""
