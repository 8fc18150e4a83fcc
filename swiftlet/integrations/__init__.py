"""Swiftlet in other programs; each module needs an extra of its own."""
