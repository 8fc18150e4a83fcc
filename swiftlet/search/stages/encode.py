"""A query to its embedding, from the encoder or from the cache."""

from swiftlet.index.parts import SearchParts
from swiftlet.search.stages.state import SearchState


class Tokenise:
    """Looks the query up in the cache; a query that is not there becomes token ids."""

    name = "tokenise"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._encoder = parts.encoder

    def run(self, search: SearchState) -> bool:
        """Set `embedding` from the cache, or `token_ids`; a lexical search needs neither."""
        if search.mode == "lexical":
            return False
        if search.cache is not None:
            embedding = search.cache.get(search.request.query)
            if embedding is not None:
                search.embedding = embedding
                search.cached = True
                return False
        search.token_ids = self._encoder.tokenise(search.request.query)
        return True


class Encode:
    """Turns the token ids into the query's embedding, and puts it into the cache."""

    name = "encode"
    repeats = False

    def __init__(self, parts: SearchParts) -> None:
        self._encoder = parts.encoder

    def run(self, search: SearchState) -> bool:
        """Set `embedding`, unless it came from the cache or is not needed."""
        if search.token_ids is None:
            return False
        search.embedding = self._encoder.embed(search.token_ids)
        if search.cache is not None:
            search.cache.put(search.request.query, search.embedding)
        return True
