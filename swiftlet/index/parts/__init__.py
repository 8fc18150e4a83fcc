"""The parts of an open index that a search uses."""
