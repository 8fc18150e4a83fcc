"""Negative samplers: they draw the negative passages of each query."""
