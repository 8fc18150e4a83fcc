"""The routes, one router a module."""
