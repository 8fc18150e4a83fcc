"""Tests of the service under overload, stops, reloads and long load, with bounds."""
