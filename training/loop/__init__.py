"""The training loop: steps, evaluations, checkpoints and the run directory."""
