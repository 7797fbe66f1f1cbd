"""Checkpoints: reading and writing classic and V2 checkpoints, sidecars, `_last_checkpoint`.

`contents` reads a checkpoint, `write` writes one. `parts` splits the work between processes.
"""
