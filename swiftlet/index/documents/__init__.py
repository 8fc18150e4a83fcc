"""The documents of an index and the passages that they are split into."""
