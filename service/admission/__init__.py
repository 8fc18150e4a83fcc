"""Which requests are worked on, in which order, and on which thread."""
