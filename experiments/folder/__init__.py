"""A folder that searches itself: its first answer, a day of edits, and a peer."""
