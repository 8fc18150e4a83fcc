"""Requests and answers as they are on the wire."""
