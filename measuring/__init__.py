"""The kit of all measurements: loads, processes, figures, and the pages made of them."""
