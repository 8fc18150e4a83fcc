"""The command line: the front door, without logic of its own."""
