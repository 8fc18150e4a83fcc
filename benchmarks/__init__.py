"""Speed and memory of parts, one script for each page of docs/results/."""
