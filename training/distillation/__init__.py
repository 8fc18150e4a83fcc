"""Distils a small query encoder for an index that a big encoder has built (004)."""
