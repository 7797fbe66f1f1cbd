"""File system clients: local disks, object stores and HDFS.

Start reading at `local_files`. `conditional_put` (object stores) and `exclusive_create` (local
disks) implement put-if-absent, which publishes commits.
"""
