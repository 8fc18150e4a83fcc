"""The stages of a search. This list is the only place that names and orders them."""

from swiftlet.search.stages.hits import Fetch, Highlight, Rerank, Sort
from swiftlet.search.stages.query import (
    Aggregate,
    Boost,
    Dense,
    Encode,
    Filter,
    Fuse,
    Lexical,
    Tokenise,
)
from swiftlet.search.stages.state import Stage

STAGES: tuple[Stage, ...] = (
    Filter(), Tokenise(), Encode(), Dense(), Lexical(),
    Fuse(), Aggregate(), Boost(), Sort(), Rerank(), Fetch(), Highlight(),
)  # fmt: skip
"""The stages in their order. Stages that repeat are next to each other."""

STAGE_NAMES: tuple[str, ...] = tuple(stage.name for stage in STAGES)
"""The names of the stages in their order."""
