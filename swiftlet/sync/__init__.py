"""Keeps an index in step with the files of a folder."""
