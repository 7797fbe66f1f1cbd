"""Reads of the data source `delta`.

`batch` and `stream` plan reads, `tasks` runs on executors.
"""
