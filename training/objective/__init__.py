"""Training objectives: losses, the divergence estimate and negative samplers."""
