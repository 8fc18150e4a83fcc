"""Load tests of a search service from outside: over HTTP, importing nothing of Swiftlet's."""
