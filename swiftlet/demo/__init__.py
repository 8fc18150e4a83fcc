"""The corpus of the demo."""
