"""What the tests of the commands share."""

from tests.checkpoints import checkpoints
from tests.runs import collection

__all__ = ["checkpoints", "collection"]
