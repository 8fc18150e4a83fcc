import numpy as np
import torch

from swiftlet.index.vectors.faiss_index import EXACT_UP_TO
from tests.samplers import made, normalised
from training.data.positives import KnownPositives
from training.objective.negatives.mined import MinedSampler
from training.objective.negatives.sampler import NO_ROW, QueryBatch, Rows

DIM = 16


QUERIES = normalised(10, 1, DIM)
DOCUMENTS = normalised(300, 2, DIM)
NEAREST = (QUERIES @ DOCUMENTS.T).argsort(dim=1, descending=True).numpy()
# Of each query the best and the third are relevant.
KNOWN = KnownPositives(NEAREST[:, [0, 2]].tolist())
BATCH = QueryBatch(np.arange(10), NEAREST[:, 0], QUERIES)


def encode(rows: Rows) -> torch.Tensor:
    return DOCUMENTS[rows]


def sampler(num_passages: int = 300, **settings: int) -> MinedSampler:
    settings = {"per_query": 4, "depth": 4, "refresh_every": 3, **settings}
    queries = {"encode_queries": lambda queries: QUERIES[queries]}
    return made(MinedSampler, KNOWN, num_passages, settings=settings, **queries)


def test_negatives_are_the_nearest_irrelevant_passages():
    mined = sampler()
    mined.prepare(encode)
    assert (np.sort(mined.draw(BATCH), axis=1) == np.sort(NEAREST[:, [1, 3, 4, 5]], axis=1)).all()


def test_all_of_the_nearest_are_drawn_equally_often():
    mined = sampler(per_query=2)
    mined.prepare(encode)
    rows = np.concatenate([mined.draw(BATCH)[0] for _ in range(1000)])
    counts = [int((rows == row).sum()) for row in NEAREST[0, [1, 3, 4, 5]]]
    assert sum(counts) == 2000
    # The standard deviation of each is √250.
    assert all(abs(count - 500) < 64 for count in counts)


def test_passages_are_searched_again_every_so_many_steps():
    mined = sampler()
    mined.prepare(encode)
    before = np.sort(mined.draw(BATCH), axis=1)
    opposite = np.sort(NEAREST[:, [-1, -2, -3, -4]], axis=1)
    changes = []
    for _ in range(7):
        mined.refresh(lambda rows: -DOCUMENTS[rows])
        drawn = np.sort(mined.draw(BATCH), axis=1)
        assert (drawn == before).all() or (drawn == opposite).all()
        changes.append((drawn == opposite).all())
    assert changes == [False, False, True, True, True, True, True]


def test_before_anything_is_mined_nothing_is_drawn():
    assert (sampler().draw(BATCH) == NO_ROW).all()


def test_an_approximate_index_finds_most_of_the_nearest_and_encodes_each_passage_once():
    size = EXACT_UP_TO + 1000
    documents = normalised(size, 3, DIM)
    nearest = (QUERIES @ documents.T).topk(50, dim=1).indices.numpy()
    encoded = np.zeros(size, np.int64)

    def counting(rows: Rows) -> torch.Tensor:
        encoded[rows] += 1
        return documents[rows]

    mined = sampler(per_query=40, depth=40, num_passages=size)
    mined.prepare(counting)
    assert (encoded == 1).all()
    found = [np.isin(*pair).mean() for pair in zip(mined.draw(BATCH), nearest, strict=True)]
    assert np.mean(found) > 0.8


def test_static_negatives_are_searched_once():
    mined = sampler(refresh_every=0)
    encoded = []

    def counted(rows):
        encoded.append(len(rows))
        return encode(rows)

    mined.prepare(counted)
    before, drawn = len(encoded), np.sort(mined.draw(BATCH), axis=1)
    for _ in range(5):
        mined.refresh(counted)
    assert len(encoded) == before
    assert (np.sort(mined.draw(BATCH), axis=1) == drawn).all()
