"""Version checksums (PROTOCOL.md, Version Checksum File): the `.crc` files of the log.

Start at `read`, which reads and validates a checksum. `write` computes a version's checksum from
the previous one and the commit.
"""
