"""Reads of the data source `delta`.

`batch`, `change_data_feed` and `stream` plan reads. `tasks` contains the functions that executors
run.
"""
