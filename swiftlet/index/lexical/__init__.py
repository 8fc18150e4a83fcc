"""The lexical index: its analysis of text, its writing, and searches of it."""
