"""Indexes that a Milvus server holds; docs/milvus.md describes the collection."""
