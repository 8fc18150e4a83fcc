"""One seed for each step."""

import numpy as np
import torch


def seed_step(*entropy: int) -> None:
    """Seed torch by the place in a run alone, so that what drops out is the same after resuming."""
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0] >> 1))
