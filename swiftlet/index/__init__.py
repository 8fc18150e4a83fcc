"""An index: its formats, each in a room of its own; above them building and changing."""
