"""Plain services to compare with."""
