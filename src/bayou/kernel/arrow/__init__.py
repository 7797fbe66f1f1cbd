"""Arrow values of the kernel: types, rows, batches, closeable iterators and serialization.

Start reading at `types`, which converts between Delta types and Arrow types.
"""
