"""Indexes that a server holds: what its engines share."""
