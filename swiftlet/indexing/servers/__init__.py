"""Writes indexes to servers: what the engines share."""
