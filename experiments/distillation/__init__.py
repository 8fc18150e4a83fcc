"""The query encoders that ship: what they learn from, and what they keep."""
