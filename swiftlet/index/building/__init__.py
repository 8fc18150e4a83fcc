"""From a corpus to an index directory."""
