"""OPTIMIZE, Z-order, clustering and REORG PURGE: rewrite files without changing their rows.

Start reading at `optimize`. `bin_packing` groups files, and `rewrite_execution` runs and commits
the rewrites.
"""
