"""The questions of the table of contexts, and the ways to pack what was found."""
