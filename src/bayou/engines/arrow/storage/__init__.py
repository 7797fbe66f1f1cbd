"""Files on local disks and in object stores.

`local_files` and `object_store_files` implement `FileSystemClient`. Start with `local_files`.
Commits are published by `conditional_put` and `exclusive_create`.
"""
