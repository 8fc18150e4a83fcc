"""Training data: sources, passages, pairs and judgements, and the validation set."""
