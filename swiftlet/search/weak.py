"""The scores that queries without a sense reach in an index: hits below them are weak."""

import random
import re
from statistics import median

from swiftlet.search.groups import KeptEmbeddings
from swiftlet.search.searcher import Searcher

NUM_QUERIES = 100
"""The random queries; with as many, the line is within about 0.015."""

_SAMPLED, _FEWEST_WORDS = 400, 50
_LENGTHS = (3, 8)
# Scripts without blanks have words of about two characters.
_WITHOUT_BLANKS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_WITHOUT_BLANKS}]{{2}}|\w{{4,20}}")


def random_queries(searcher: Searcher) -> list[str]:
    """Queries of three to eight words, each word of another passage; none of a tiny index."""
    base = searcher.parts.store.base
    if base is None:
        return []
    draw = random.Random(0)  # noqa: S311 - the same queries each time
    rows = draw.sample(range(base.num_passages), min(_SAMPLED, base.num_passages))
    texts = [each.passage.text for each in base.passages(rows)]
    words = [word for text in texts for word in sorted({*_WORD.findall(text)})]
    if len(words) < _FEWEST_WORDS:
        return []
    return [" ".join(draw.sample(words, draw.randint(*_LENGTHS))) for _ in range(NUM_QUERIES)]


def weak_below(searcher: Searcher) -> dict[str, float]:
    """For each mode by meaning, the score that the best hit of every second random query reaches.

    A hit below it is no better than what random words find. docs/results/weak.md has the share of
    relevant hits that are below, of questions to another corpus that find nothing above, and why
    searches by words alone have none. Empty where the index is on a server, has too few words, or
    has no encoder.

    :raises RetrievalError: As `Searcher.search`.
    """
    if not searcher.has_encoder:
        return {}
    queries, cache = random_queries(searcher), KeptEmbeddings()
    found: dict[str, float] = {}
    for mode in set(searcher.modes) - {"lexical"} if queries else ():
        hits = (searcher.search(each, 1, mode=mode, boost=[], cache=cache) for each in queries)
        found[mode] = round(median(max((hit.score for hit in each), default=0) for each in hits), 4)
    return found
