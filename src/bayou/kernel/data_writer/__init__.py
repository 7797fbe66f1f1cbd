"""Data files of a transaction: partitioning, checks, Parquet files and `add` actions.

Start at `data_writer.write_data`. `task_writer` writes the files of one task.
"""
