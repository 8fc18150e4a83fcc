"""Load tests of a search service over HTTP."""
