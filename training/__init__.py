"""Dual encoders: towers, losses, negative samplers, alignment and recipes."""
