"""OPTIMIZE, Z-order, clustering and REORG PURGE: rows move to new files without changing.

Start at `optimize`. `rewrite_plan` runs and commits the rewrites.
"""
