"""The changes of an index since its base was built."""
