"""Writing data files of a transaction: constraints, partitioning, Parquet files, `add` actions.

Start at `data_writer.write_data`. `task_writer` writes the files of one task.
"""
