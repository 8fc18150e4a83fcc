"""Trains dual encoders from recipes, and distils small query encoders."""
