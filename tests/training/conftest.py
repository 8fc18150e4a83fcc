"""What the tests of training share."""

from tests.checkpoints import checkpoints

__all__ = ["checkpoints"]
