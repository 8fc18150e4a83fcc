"""One script for each page of docs/results that comes from an experiment on retrieval quality."""
