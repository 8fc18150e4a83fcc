"""Writes indexes to a PostgreSQL server."""
