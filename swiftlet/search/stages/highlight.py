"""The parts of the passages that answer the query."""

import re
from collections.abc import Iterator
from dataclasses import replace

from swiftlet.index.parts import SearchParts
from swiftlet.search.stages.state import SearchState
from swiftlet.types import Span

_SENTENCE = re.compile(r"\S.*?(?:[.!?…](?=\s|$)|[\u3002\uff01\uff1f]|(?=\n\s*\n)|$)", re.DOTALL)


class Highlight:
    """Marks the words of the query in each passage, or its sentence that is nearest in meaning."""

    name = "highlight"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._encoder = parts.encoder
        self._lexical = parts.lexical

    def run(self, search: SearchState) -> bool:
        """Set the highlights of the hits, if they are asked for."""
        if search.request.highlight is None:
            return False
        marks = self._sentence if search.request.highlight == "sentence" else self._words
        search.hits = [
            replace(hit, highlights=spans)
            for hit, spans in zip(search.hits, marks(search), strict=True)
        ]
        return True

    def _words(self, search: SearchState) -> Iterator[tuple[Span, ...]]:
        query = search.lexical_query
        if query is None and self._lexical is not None:
            query = self._lexical.parse(search.request.query)
        for hit in search.hits:
            yield () if query is None else query.highlights(hit.passage.text)

    def _sentence(self, search: SearchState) -> Iterator[tuple[Span, ...]]:
        asked = self._encoder.encode([search.request.query])[0]
        for hit in search.hits:
            spans = [found.span() for found in _SENTENCE.finditer(hit.passage.text)]
            if not spans:
                yield ()
                continue
            texts = [hit.passage.text[start:end] for start, end in spans]
            yield (spans[int((self._encoder.encode(texts) @ asked).argmax())],)
