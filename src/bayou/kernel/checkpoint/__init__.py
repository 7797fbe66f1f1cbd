"""Checkpoints: reading and writing classic and V2 checkpoints, sidecars and the checkpoint hint.

`read` reads a checkpoint and `write` writes one. `parts` divides the writing among processes.
"""
