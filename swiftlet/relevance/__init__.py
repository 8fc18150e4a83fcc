"""What people search: the log of searches and clicks, and the report on it."""
