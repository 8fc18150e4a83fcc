"""Runs, metrics and significance."""

METRICS = "nDCG@k, MRR@k, recall@k (R@k), P@k, MAP@k, hit_rate@k and Holes@k"
"""The metrics, as help and errors list them."""
