"""Arrow values that the whole kernel uses: types, rows, batches, IPC and serialization.

`types` converts between Delta types and Arrow types.
"""
