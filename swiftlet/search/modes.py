"""The choices that a search has: its mode, its fusion of two scores, its highlights."""

from typing import Literal, get_args

Mode = Literal["hybrid", "dense", "lexical"]
"""Which indexes a search uses: both, the vector index, or the lexical index."""

Fusion = Literal["weighted", "rrf"]
"""How two scores become one: by their weighted sum, or by reciprocal rank fusion."""

Highlighting = Literal["words", "sentence"]
"""The marked parts of passages: the words of the query, or the sentence nearest in meaning."""

MODES: tuple[Mode, ...] = get_args(Mode)
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
HIGHLIGHTINGS: tuple[Highlighting, ...] = get_args(Highlighting)

DEFAULT_WEIGHT = 0.72
"""The weight of the dense score; docs/results/hybrid.md has the collections it was chosen on."""
