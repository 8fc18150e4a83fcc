"""The modes of a search, and how a hybrid search combines two scores."""

from typing import Literal, get_args

Mode = Literal["hybrid", "dense", "lexical"]
"""Which indexes a search uses: both, the vector index, or the lexical index."""

Fusion = Literal["weighted", "rrf"]
"""How two scores become one: by their weighted sum, or by reciprocal rank fusion."""

MODES: tuple[Mode, ...] = get_args(Mode)
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)

DEFAULT_WEIGHT = 0.72
"""The weight of the dense score; docs/results/hybrid.md has the collections it was chosen on."""
