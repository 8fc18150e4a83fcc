"""Indexes that a PostgreSQL server holds; docs/postgres.md describes the tables."""
