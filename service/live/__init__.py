"""The index that is served now: its state, its reloads and its changes."""
