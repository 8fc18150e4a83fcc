"""Shared parts of the commands' tests."""

from tests.checkpoints import checkpoints
from tests.runs import collection

__all__ = ["checkpoints", "collection"]
