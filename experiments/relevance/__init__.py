"""The bench of the relevance loop."""
