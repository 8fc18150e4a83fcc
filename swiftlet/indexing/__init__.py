"""From a corpus to an index: passages, embeddings and the index directory."""
