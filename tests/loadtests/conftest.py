"""The real service, servers of known latency, and queries."""

from tests.measuring.conftest import loaded_server, paced_server, queries_file

__all__ = ["loaded_server", "paced_server", "queries_file"]
