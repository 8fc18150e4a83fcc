"""Methods of the papers that brought no gain here: one file for each, beside the main path."""
