"""Negative samplers: which documents a query is trained to stay away from."""
