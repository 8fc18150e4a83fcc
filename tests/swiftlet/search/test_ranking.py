import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swiftlet.search.ranking import best_passages, score_of_last


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.lists(st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1.0]) | st.floats(-1, 1, width=32)),
    st.randoms(use_true_random=False),
)
def test_each_document_has_the_score_of_its_best_passage_and_ties_go_by_number_and_row(
    passage_to_document, scores, random
):
    rows = random.sample(range(len(passage_to_document)), len(passage_to_document))[: len(scores)]
    scores = scores[: len(rows)]
    best: dict[int, tuple[float, int]] = {}
    for score, row in zip(scores, rows, strict=True):
        document = passage_to_document[row]
        best[document] = min(best.get(document, (np.inf, 0)), (-score, row))
    expected = [best[document] for document in sorted(best, key=lambda d: (best[d][0], d))]
    found_scores, found_rows = best_passages(
        np.array(scores, dtype=np.float32),
        np.array(rows, dtype=np.int64),
        np.array(passage_to_document, dtype=np.int32),
    )
    assert found_rows.tolist() == [row for _, row in expected]
    assert found_scores.tolist() == [-score for score, _ in expected]
    assert found_scores.dtype == np.float32
    assert found_rows.dtype == np.int64
    documents = np.array(passage_to_document, dtype=np.int32)[rows]
    for count in range(1, len(best) + 2):
        last = -expected[count - 1][0] if count <= len(best) else -np.inf
        assert score_of_last(np.array(scores, np.float32), documents, count) == last
