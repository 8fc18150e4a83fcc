"""Adapts a query encoder to the documents of an index."""
