"""Plots of embeddings, curves, and quality against latency."""
