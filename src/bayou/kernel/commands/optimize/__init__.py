"""OPTIMIZE, Z-order, clustering and REORG PURGE: rewrite files without changing their rows.

Start at `optimize`. `rewrite_plan` runs and commits the rewrites.
"""
