"""The product of sparse vectors gives the scores of the lexical index."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.index.lexical.analysis import analysis_of
from swiftlet.index.lexical.bm25 import passage_vector, query_vector
from swiftlet.index.lexical.index import LexicalIndex, counted_words
from swiftlet.index.lexical.writer import write_lexical_index

QUERIES = ["w3 w5.a0 w3", "w1 w2 w777", "w10.a3 w12", "unknown w9", "unknown", ""]


@given(st.integers(0, 10**6), st.sampled_from(["english", "none"]))
@settings(max_examples=20)
def test_products_are_the_scores_of_tantivy(seed, language):
    random = np.random.default_rng(seed)
    words = (random.zipf(1.3, int(random.integers(0, 900))) % 10_000 for _ in range(60))
    texts = [" ".join(f"w{n}.a{n % 7}" if n % 5 == 0 else f"w{n}" for n in each) for each in words]
    analysis = analysis_of(language)
    found = [analysis.passage_words(text) for text in texts]
    passages = Counter(word for each in found for word in {*each})
    mean = sum(map(len, found)) / len(found)
    vectors = [passage_vector(each, mean) for each in found]
    with TemporaryDirectory() as folder:
        write_lexical_index(Path(folder, "words"), ((text, ()) for text in texts), language)
        index = LexicalIndex.open(Path(folder, "words"), language)
        for query in QUERIES:
            asked = counted_words(
                query, analysis, len(texts), lambda some: {word: passages[word] for word in some}
            )
            wanted = query_vector(asked)
            products = np.array(
                [sum(each.get(place, 0) * wanted[place] for place in wanted) for each in vectors]
            )
            scores, rows = index.parse(query).search(len(texts))
            np.testing.assert_allclose(products[rows], scores, rtol=1e-5)
            assert np.count_nonzero(products) == len(rows)
