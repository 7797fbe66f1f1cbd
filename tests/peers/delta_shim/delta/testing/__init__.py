"""`delta.testing`."""
