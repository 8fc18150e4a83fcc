"""DAFT (001) on a small scale."""
