"""Commands that make and change indexes."""
