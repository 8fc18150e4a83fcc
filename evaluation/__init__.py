"""Runs, metrics and significance."""
