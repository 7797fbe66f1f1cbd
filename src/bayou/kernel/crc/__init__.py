"""Version checksums (PROTOCOL.md, Version Checksum File): the `.crc` files of the log.

Start reading at `read`, which reads and validates a checksum. `write` computes the checksum of a
version from the checksum of the previous version and the commit.
"""
