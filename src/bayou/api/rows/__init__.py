"""Rows of a table as Arrow data: reads, parallel iteration, lossless casts.

Start reading at `read`.
"""
