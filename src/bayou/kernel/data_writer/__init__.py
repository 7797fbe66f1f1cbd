"""Writing of a transaction's data files: constraints, partitioning, Parquet files, `add` actions.

Start reading at `data_writer.write_data`. `task_writer` writes the files of one Spark task.
"""
