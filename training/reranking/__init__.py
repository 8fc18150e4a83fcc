"""Training of cross-encoders, which re-rank the documents that a search has found."""
