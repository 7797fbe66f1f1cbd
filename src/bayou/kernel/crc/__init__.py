"""Version checksums (PROTOCOL.md, Version Checksum File): the `.crc` files of the log.

`read` checks and reads one, `write` computes the next one from a commit.
"""
