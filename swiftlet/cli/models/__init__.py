"""Commands that make and measure models."""
