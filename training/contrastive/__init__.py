"""Contrastive training of a dual encoder: a step, a stage of steps, and its validation."""
