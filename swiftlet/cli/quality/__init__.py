"""Commands that measure what searches find, and ask people about it."""
