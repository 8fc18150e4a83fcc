"""A small query encoder for an index that a big encoder built (004)."""
