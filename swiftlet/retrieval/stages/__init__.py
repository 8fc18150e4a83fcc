"""The stages of a search. This list is the only place that names and orders them."""

from swiftlet.retrieval.stages.candidates import Aggregate, Dense, Fuse, Lexical
from swiftlet.retrieval.stages.encode import Encode, Tokenise
from swiftlet.retrieval.stages.fetch import Fetch
from swiftlet.retrieval.stages.filter import Filter
from swiftlet.retrieval.stages.highlight import Highlight
from swiftlet.retrieval.stages.rerank import Rerank
from swiftlet.retrieval.stages.state import Stage

STAGES: tuple[type[Stage], ...] = (
    Filter, Tokenise, Encode, Dense, Lexical, Fuse, Aggregate, Rerank, Fetch, Highlight
)  # fmt: skip
"""The stages in their order. Stages that repeat are next to each other."""

STAGE_NAMES: tuple[str, ...] = tuple(stage.name for stage in STAGES)
"""The names of the stages in their order."""
