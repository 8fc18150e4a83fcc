"""Swiftlet as a model of MTEB; needs the extra `mteb`."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction
from mteb.types import PromptType

import swiftlet
from swiftlet import encoders
from swiftlet.arguments import path_of
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.encoding import encode_texts
from swiftlet.errors import InvalidArgumentError
from swiftlet.manifest import check_embedding_spaces
from swiftlet.search.request import Mode
from swiftlet.types import Embeddings

StrPath = str | Path


class SwiftletPair:
    """The encoders of a pair, each for its side: `mteb.evaluate(SwiftletPair(), tasks)`.

    Queries go to the query encoder, and all other texts to the document encoder. Both add the
    prompts of their model themselves. A text that is longer than the encoder reads is cut.
    """

    def __init__(
        self,
        document_encoder: StrPath = encoders.DEFAULT_ENCODER,
        query_encoder: StrPath = encoders.DEFAULT_QUERY_ENCODER,
        *,
        name: str = "",
    ) -> None:
        """Open the encoders: directories, or names of encoders that ship.

        :param name: The name of the results, OWNER/NAME; by default the query encoder's name.
        :raises ArtefactError: When one of them is damaged.
        :raises EmbeddingSpaceMismatch: When they are not of one embedding space.
        """
        document, query = (
            encoders.find(path_of("encoder", each)) for each in (document_encoder, query_encoder)
        )
        self._documents = OnnxEncoder.load(document, role="passage")
        self._queries = OnnxEncoder.load(query, role="query")
        check_embedding_spaces(self._queries.manifest, self._documents.manifest)
        self.mteb_model_meta = _meta(name or f"swiftlet/{query.name}", self._documents.dim)

    def encode(
        self, inputs: Iterable[Any], *, prompt_type: PromptType | None = None, **_: Any
    ) -> Embeddings:
        """The embeddings (n, dim) of the texts in the batches `inputs`."""
        encoder = self._queries if prompt_type is PromptType.query else self._documents
        return encode_texts(encoder, (text for batch in inputs for text in batch["text"]))

    def similarity(self, embeddings1: Embeddings, embeddings2: Embeddings) -> Embeddings:
        """The inner products (n, m)."""
        return embeddings1 @ embeddings2.T

    def similarity_pairwise(self, embeddings1: Embeddings, embeddings2: Embeddings) -> Embeddings:
        """The inner products (n,) of the embeddings in the same row."""
        products: Embeddings = np.vecdot(embeddings1, embeddings2)
        return products


class SwiftletSearch:
    """The whole search, for MTEB's retrieval tasks: `mteb.evaluate(SwiftletSearch(), tasks)`.

    It builds an index of each corpus, with passages, maxP and compression as `swiftlet.build`
    does, and searches it in `mode`, by default hybrid.
    """

    def __init__(
        self,
        encoder: StrPath = encoders.DEFAULT_ENCODER,
        query_encoder: StrPath | None = None,
        *,
        mode: Mode | None = None,
        name: str = "",
        **settings: Any,
    ) -> None:
        """Remember the encoders; None takes the query encoder that `swiftlet.open` takes.

        :param name: That of the results, OWNER/NAME.
        :param settings: Further arguments of `swiftlet.build`, such as `passage_tokens`.
        """
        self._encoder, self._query_encoder = encoder, query_encoder
        self._mode, self._settings = mode, settings
        self._folder = TemporaryDirectory(prefix="swiftlet-")
        dim = OnnxEncoder.load(encoders.find(path_of("encoder", encoder)), verify=False).dim
        self.mteb_model_meta = _meta(name or f"swiftlet/search-{mode or 'hybrid'}", dim)

    def index(self, corpus: Iterable[dict[str, Any]], **_: Any) -> None:
        """Build the index of a corpus: rows with id, text, and perhaps title."""
        rows = (
            {name: row[name] for name in ("id", "title", "text") if row.get(name) is not None}
            for row in corpus
        )
        settings = {"encoder": self._encoder, **self._settings}
        swiftlet.build(rows, Path(self._folder.name, "index"), overwrite=True, **settings)

    def search(
        self,
        queries: Iterable[dict[str, Any]],
        *,
        top_k: int,
        top_ranked: object = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Query id -> document id -> score, of the `top_k` best documents.

        :raises InvalidArgumentError: When a task gives the documents to rank.
        """
        if top_ranked is not None:
            raise InvalidArgumentError("an index cannot rank given documents: take SwiftletPair")
        place = Path(self._folder.name, "index")
        with swiftlet.open(place, encoder=self._query_encoder) as searcher:
            return {
                query["id"]: {
                    hit.document_id: hit.score
                    for hit in searcher.search(query["text"], top_k, mode=self._mode).hits
                }
                for query in queries
            }


def _meta(name: str, dim: int) -> ModelMeta:
    return ModelMeta.create_empty(
        {
            "name": name,
            "revision": swiftlet.__version__,
            "embed_dim": dim,
            "framework": ["ONNX"],
            "similarity_fn_name": ScoringFunction.DOT_PRODUCT,
        }
    )
