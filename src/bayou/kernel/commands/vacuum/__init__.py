"""VACUUM: delete files that no version within the retention period references.

Start at `vacuum`. `plan` compares the listing of the folder with `referenced_files`.
"""
