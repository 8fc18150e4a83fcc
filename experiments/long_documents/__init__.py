"""Passages of several lengths: models and BM25 (002, section 5)."""
