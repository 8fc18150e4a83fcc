"""The lexical index: its analysis of text, its writing, and searches of it."""

DEFAULT_LANGUAGE = "english"
"""The language of the words of an index that names none."""

AUTO = "auto"
"""The language of a build that takes the languages of its documents."""
