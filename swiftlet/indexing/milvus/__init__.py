"""Writes indexes to a Milvus server."""
