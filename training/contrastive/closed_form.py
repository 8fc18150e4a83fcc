"""Alignment in closed form: the query encoder begins with a map to the document encoder's outputs.

Both encode the same texts, which need no judgements, as queries.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional

from swiftlet.types import Document
from training.contrastive.batch_encoder import BatchEncoder
from training.data.passages import PassageTexts
from training.data.sentences import sample_sentences
from training.errors import TrainingDataError
from training.objective.divergence import Texts
from training.objective.ridge import RidgeFit, fit_map

FEWEST_TEXTS = 20
_MOST_TEXTS = 8192
_HELD_OUT, _MOST_HELD_OUT = 0.1, 1000


def fitted_on(queries: Sequence[str], passages: PassageTexts, texts: Texts, seed: int) -> list[str]:
    """At most 8,192 of the training `queries`, as many sentences of `passages`, or both; shuffled.

    :raises TrainingDataError: When there are fewer than 20 distinct texts.
    """
    random = np.random.default_rng(seed)
    found = []
    if texts != "sentences":
        found += [queries[place] for place in random.permutation(len(queries))[:_MOST_TEXTS]]
    if texts != "queries":
        rows = np.sort(random.permutation(passages.num_passages)[:_MOST_TEXTS])
        documents = (Document("", text) for text in passages.texts(rows))
        found += [each.text for each in sample_sentences(documents, _MOST_TEXTS, seed)]
    distinct = list(dict.fromkeys(found))
    if len(distinct) < FEWEST_TEXTS:
        raise TrainingDataError(
            f"alignment.start 'ridge' is fitted to {len(distinct)} distinct texts, at least "
            f"{FEWEST_TEXTS} are needed: set alignment.texts to 'both', or leave alignment.start "
            "out"
        )
    return [distinct[place] for place in random.permutation(len(distinct))]


@torch.no_grad()
def align(encoder: BatchEncoder, texts: Sequence[str]) -> RidgeFit:
    """Fit the `query_map` of a dual encoder to `texts`; a tenth of them chooses λ.

    :raises TrainingStoppedError: When an output is not finite.
    """
    dual = encoder.dual_encoder
    assert dual.query_map is not None  # noqa: S101 - the recipe has made one
    found, wanted = encoder.query_outputs(texts), encoder.as_queries(texts)
    embed: Callable[[torch.Tensor], torch.Tensor] = dual.project_one
    keeps = found.shape[1] == wanted.shape[1]
    if dual.query_map is not dual.adapter and (documents := dual.document_projection) is not None:
        # A separate projection of queries gives what the documents' projection gives.
        wanted = functional.linear(wanted, documents.weight, documents.bias)
        embed, keeps = functional.normalize, False
    count = max(1, min(_MOST_HELD_OUT, int(_HELD_OUT * len(texts))))
    pairs, held_out = ((found[part], wanted[part]) for part in (slice(count, None), slice(count)))
    return fit_map(dual.query_map, pairs, held_out, keeps=keeps, embed=embed)
