"""VACUUM: delete files that no version within the retention period references.

Start reading at `vacuum`. `plan` compares a listing of the table's folder with `referenced_files`.
"""
