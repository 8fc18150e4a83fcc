"""Puts documents into an index, deletes them, and merges the changes."""
