"""Recipes: the settings of a run and two ready TOML files."""
