"""Checkpoints: reading and writing of classic and V2 checkpoints and of `_last_checkpoint`.

`read` reads a checkpoint and `write` writes one. `parts` divides the writing among processes.
"""
