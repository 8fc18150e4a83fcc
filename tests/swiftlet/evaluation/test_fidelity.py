"""Random projections of bags of words, and the bounds of 002's lemmas."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import swiftlet
from swiftlet.cli.main import app
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.compression import PROJECTIONS, Compression
from swiftlet.evaluation.fidelity import (
    Bags,
    _projected,
    dimensions_for_pair,
    dimensions_for_recall,
    measure,
)

TEXTS = ["tea tea leaf", "tea water", "snow ski board slope", "ski tax", "tax law law law", "snow"]
QUERIES = ["tea leaf", "ski slope", "law"]


def random_texts(count: int, length: int, num_words: int = 300) -> list[str]:
    """Texts with frequent and rare words, as of a language."""
    random = np.random.default_rng(length)
    shares = 1 / np.arange(1, num_words + 1)
    words = random.choice(num_words, (count, length), p=shares / shares.sum())
    return [" ".join(map(str, text)) for text in words]


def test_bm25_is_an_inner_product_of_bags_of_words():
    bags = Bags.of(TEXTS, QUERIES, str.split)
    found = np.asarray((bags.queries @ bags.texts.T).todense())
    lengths = np.array([len(text.split()) for text in TEXTS])
    for row, query in enumerate(QUERIES):
        for column, text in enumerate(TEXTS):
            expected = 0.0
            for word in query.split():
                count, holders = text.split().count(word), sum(word in t.split() for t in TEXTS)
                rarity = math.log1p((len(TEXTS) - holders + 0.5) / (holders + 0.5))
                length = 0.25 + 0.75 * lengths[column] / lengths.mean()
                expected += rarity * count * 2.2 / (count + 1.2 * length)
            assert found[row, column] == pytest.approx(expected)


def test_the_boolean_score_is_the_number_of_common_words():
    bags = Bags.of(TEXTS, QUERIES, str.split, "boolean")
    assert np.asarray((bags.queries @ bags.texts.T).todense()).tolist() == [
        [2, 1, 0, 0, 0, 0],
        [0, 0, 2, 1, 0, 0],
        [0, 0, 0, 0, 1, 0],
    ]


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_projected_scores_are_right_on_average_and_better_with_more_dimensions(projection):
    bags = Bags.of(random_texts(40, 12), random_texts(8, 4), str.split)
    scores = np.asarray((bags.queries @ bags.texts.T).todense())
    asked, ends = Compression(projection=projection), (64, 4096)
    errors = []
    for count, projected in zip(ends, _projected(bags, asked, ends, int), strict=True):
        errors.append(np.abs(projected / count - scores).mean())
    assert errors[1] < errors[0] / 4  # by the square root of 64, but for chance
    assert errors[1] < 0.1 * scores.max()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(4, 60),
    st.sampled_from(PROJECTIONS),
    st.sampled_from(["bm25", "boolean"]),
    st.integers(0, 10_000),
)
def test_lemma_1_bounds_the_errors_of_pairs_of_every_margin(length, projection, model, seed):
    bags = Bags.of(random_texts(60, length), random_texts(20, 5), str.split, model)
    asked = Compression(projection=projection, model=model, rank=3, seed=seed)
    found = measure(bags, asked)
    # The margins of the first group, the smallest ones, may differ by orders of magnitude; in the
    # others, that of the median stands for all. Numbers of dimensions are tried in steps of √2.
    for term, enough in found.tightness[1:]:
        assert enough <= max(found.dimensions[0], 2 * math.log(4 / asked.error) * term * 2**0.5)


@given(st.floats(1e-3, 1), st.floats(1e-6, 0.5))
def test_the_bounds_solve_the_lemmas(margin, error):
    term = margin**2 / 2 - margin**3 / 3
    k = dimensions_for_pair(margin, error)
    assert 4 * math.exp(-k / 2 * term) == pytest.approx(error)
    k = dimensions_for_recall(margin, error, num_others=1000, rank=10)
    assert 4 * 991 * math.exp(-k / 2 * term) == pytest.approx(error)
    # Corollary 1 is looser.
    assert k <= 12 / margin**2 * math.log(4 * 991 / error) * (1 + 1e-9)


def test_few_dimensions_lose_more_and_long_texts_need_more():
    long, short = (random_texts(200, length, 3000) for length in (160, 10))
    bags = Bags.of([*short, *long], [each[:20] for each in short], str.split, "boolean")
    dimensions, asked = (32, 256, 2048), Compression(model="boolean")
    found = measure(bags, asked, num_groups=2, dimensions=dimensions)
    assert found.errors[0] > found.errors[1] > found.errors[2]
    assert found.recalls[0] < found.recalls[2]
    assert [most_words for most_words, _ in found.groups] == [10, 160]
    assert measure(bags, asked, num_groups=2, dimensions=dimensions) == found
    other = measure(bags, replace(asked, seed=1), dimensions=dimensions)
    assert other.errors != found.errors


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"error": 0.0}, "error is 0, but must lie between 0 and 1"),
        ({"rank": 6}, "rank is 6, but must be from 1 to 5, since there are 6 texts: lower it"),
        ({"model": "tfidf"}, "model is 'tfidf', but one of bm25, boolean is expected"),
        ({"projection": "pca"}, "projection is 'pca', but one of rademacher, gaussian"),
        ({"queries": {"q": "volcano"}}, "no query shares a word with a text"),
        ({"model": "boolean", "rank": 5}, "no query ranks 5 other texts below its best one"),
    ],
)
def test_impossible_measurements_are_refused_in_one_sentence(arguments, problem):
    rows = [{"_id": f"{number}", "text": text} for number, text in enumerate(TEXTS)]
    with pytest.raises(InvalidArgumentError, match=problem):
        swiftlet.fidelity(rows, **{"queries": {"q": "tea"}, **arguments})


def test_an_index_is_measured_by_its_passages(small_index):
    given = ["fidelity", str(small_index), "--rank", "1", "--num-queries", "20"]
    shown = CliRunner().invoke(app, given)
    assert shown.exit_code == 0, shown.output
    found = swiftlet.fidelity(small_index, rank=1, num_queries=20)
    assert f"{found.num_texts} texts" in shown.output
    assert f"lemmas 1 and 2 guarantee it from {found.pair_bound:,} and" in shown.output
