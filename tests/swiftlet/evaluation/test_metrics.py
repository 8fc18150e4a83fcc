import math

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.errors import EvaluationError, InvalidArgumentError, RetrievalError
from swiftlet.evaluation.metrics import Metric, evaluate, evaluate_per_query
from swiftlet.types import Qrels, Run

# One query, relevant documents a (grade 3), b (1) and c (2); the run finds a, x, b in this order.
QRELS: Qrels = {"q": {"a": 3, "b": 1, "c": 2, "x": 0}}
RUN: Run = {"q": {"b": 0.1, "x": 0.2, "a": 0.9}}
LINEAR_GAIN = (3 + 1 / 2) / (3 + 2 / math.log2(3) + 1 / 2)


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("nDCG@10", LINEAR_GAIN),
        ("ndcg", LINEAR_GAIN),
        ("nDCG@1", 1.0),
        ("MRR@10", 1.0),
        ("RR", 1.0),
        ("recall@100", 2 / 3),
        ("R@2", 1 / 3),
        ("recall", 2 / 3),
        ("P@1", 1.0),
        ("precision@10", 0.2),  # of ten places, also when fewer are taken
        ("MAP", (1 + 2 / 3) / 3),
        (" map@2 ", 1 / 3),
        ("hit_rate@1", 1.0),
        ("Success@5", 1.0),
        ("Holes@10", 0.0),  # a, x and b are judged, x as not relevant
    ],
)
def test_metrics_equal_those_computed_by_hand_in_any_spelling(spelling, expected):
    assert evaluate(RUN, QRELS, [spelling]) == {spelling: pytest.approx(expected)}


def test_every_judged_query_counts_and_no_other():
    qrels: Qrels = {
        "found": {"a": 1},
        "second": {"b": 1},
        "nothing found": {"c": 1},
        "not in the run": {"d": 1},
        "only grades of 0": {"a": 0},
        "not judged": {},
    }
    run: Run = {
        "only grades of 0": {"a": 1.0},
        "second": {"x": 2.0, "b": 1.0},
        "nothing found": {},
        "found": {"a": 0.0},
        "unknown": {"a": 1.0},
        "not judged": {"a": 1.0},
    }
    found = evaluate_per_query(run, qrels, ["MRR@10", "R@1"])
    assert [*found["MRR@10"]] == [*found["R@1"]] == [*qrels][:-1]
    assert [*found["MRR@10"].values()] == [1.0, 0.5, 0.0, 0.0, 0.0]
    assert [*found["R@1"].values()] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert evaluate(run, qrels, ["MRR@10"]) == {"MRR@10": 0.3}


@pytest.mark.parametrize("document_ids", [["a", "b", "c"], ["c", "b", "a"]])
def test_equal_scores_are_ordered_by_document_id_as_in_the_service(document_ids):
    run: Run = {"q": dict.fromkeys(document_ids, 0.5)}
    ranks = {
        document_id: evaluate(run, {"q": {document_id: 1}}, ["MRR"])["MRR"]
        for document_id in document_ids
    }
    assert ranks == {"a": 1.0, "b": 0.5, "c": pytest.approx(1 / 3)}


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [("Holes@1", 1.0), ("holes@2", 0.5), ("Hole@4", 0.75), ("Holes@100", 0.6), ("holes", 0.6)],
)
def test_holes_are_the_share_of_the_best_documents_without_a_judgement(spelling, expected):
    # Best first: x, a, and of three with equal scores y, z and the judged zz.
    run: Run = {"q": {"zz": 0.1, "z": 0.1, "y": 0.1, "a": 0.5, "x": 0.9}}
    qrels: Qrels = {"q": {"a": 1, "zz": 0, "not found": 2}}
    assert evaluate(run, qrels, [spelling]) == {spelling: pytest.approx(expected)}


def test_a_query_without_results_has_no_holes():
    run: Run = {"one": {"x": 1.0}, "other": {}}
    qrels: Qrels = {query_id: {"a": 1} for query_id in ("one", "other", "absent")}
    found = evaluate_per_query(run, qrels, ["Holes@10", "MRR"])["Holes@10"]
    assert found == {"one": 1.0, "other": 0.0, "absent": 0.0}


def test_negative_grades_count_as_not_relevant():
    qrels: Qrels = {"q": {"spam": -2, "a": 1}}
    run: Run = {"q": {"spam": 1.0, "a": 0.5}}
    assert evaluate(run, qrels, ["nDCG@10", "R@1", "MRR"]) == {
        "nDCG@10": pytest.approx(1 / math.log2(3)),
        "R@1": 0.0,
        "MRR": 0.5,
    }


IDS = [f"d{number}" for number in range(12)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(IDS), st.integers(0, 3), min_size=1),
            st.lists(st.sampled_from(IDS), unique=True),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_metrics_agree_with_those_of_trec_eval(queries):
    qrels: Qrels = {f"q{n}": grades for n, (grades, _) in enumerate(queries)}
    run: Run = {
        f"q{n}": {document_id: -float(rank) for rank, document_id in enumerate(found)}
        for n, (_, found) in enumerate(queries)
    }
    if not any(run.values()):
        run["q0"] = {"d0": 1.0}
    spellings = ["nDCG@10", "nDCG@3", "RR@10", "R@100", "R@2", "P@1", "P@5", "AP", "Success@3"]
    measures = [ir_measures.parse_measure(spelling) for spelling in spellings]
    theirs = ir_measures.calc_aggregate(measures, qrels, run)
    ours = evaluate(run, qrels, spellings)
    for spelling, measure in zip(spellings, measures, strict=True):
        assert ours[spelling] == pytest.approx(theirs[measure], abs=1e-9), spelling


def test_large_runs_agree_with_trec_eval_query_by_query():
    generator = np.random.default_rng(7)
    document_ids = [f"document {number}" for number in range(3000)]
    qrels: Qrels = {}
    run: Run = {}
    for number in range(200):
        judged = generator.choice(document_ids, 40, replace=False)
        found = generator.choice(document_ids, generator.integers(1, 400), replace=False)
        qrels[f"q{number}"] = {str(d): int(generator.integers(0, 4)) for d in judged}
        run[f"q{number}"] = {str(d): float(generator.random()) for d in found}
    spellings = ["nDCG@10", "RR@10", "R@100", "AP"]
    ours = evaluate_per_query(run, qrels, spellings)
    measures = {ir_measures.parse_measure(spelling): spelling for spelling in spellings}
    theirs = {
        (measures[metric.measure], metric.query_id): metric.value
        for metric in ir_measures.iter_calc(list(measures), qrels, run)
    }
    assert {(s, q): v for s, values in ours.items() for q, v in values.items()} == pytest.approx(
        theirs, abs=1e-9
    )


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(IDS), st.integers(-1, 3), min_size=1),
    st.dictionaries(st.sampled_from(IDS), st.sampled_from([0.0, 0.5, 1.0]), min_size=1),
    st.sampled_from(["", "@1", "@3", "@10"]),
)
def test_the_shares_of_holes_and_of_judged_documents_add_up_to_1(grades, scores, cutoff):
    judged = ir_measures.calc_aggregate(
        [measure := ir_measures.parse_measure(f"Judged{cutoff}")], {"q": grades}, {"q": scores}
    )[measure]
    holes = evaluate({"q": scores}, {"q": grades}, [f"Holes{cutoff}"])[f"Holes{cutoff}"]
    assert holes == pytest.approx(1 - judged)


@pytest.mark.parametrize(
    ("run", "qrels", "metrics", "message"),
    [
        (RUN, QRELS, ["nDGC@10"], "'nDGC@10' is not a metric: nDCG@k, MRR@k, recall@k"),
        (RUN, QRELS, ["recall@0"], "'recall@0' is not a metric: .* with k from 1"),
        (RUN, QRELS, ["nDCG@ten"], "'nDCG@ten' is not a metric"),
        (RUN, QRELS, ["P"], "'P' needs a cutoff in documents, such as P@10"),
        (RUN, QRELS, ["P@400 tokens"], "'P@400 tokens' needs a cutoff in documents"),
        (RUN, QRELS, ["R@400 tokens"], "a cutoff in tokens needs the lengths of documents"),
        (RUN, {}, ["MRR"], "the qrels are empty"),
        (RUN, {"q": {}}, ["MRR"], "the qrels are empty"),
        (RUN, {"p": {"a": 1}}, ["MRR"], "none of the 1 judged queries, such as 'p',.* 'q'"),
        ({}, QRELS, ["MRR"], "none of the 1 judged queries, .* the run, which is empty"),
        ({"q": {"a": math.nan}}, QRELS, ["MRR"], "a score of the query 'q' is not a number"),
        ({"q": {"a": math.nan}}, QRELS, ["Holes@3"], "a score of the query 'q' is not a number"),
    ],
)
def test_an_impossible_evaluation_is_refused_in_one_sentence(run, qrels, metrics, message):
    with pytest.raises(RetrievalError, match=message) as caught:
        evaluate(run, qrels, metrics)
    assert isinstance(caught.value, (EvaluationError, InvalidArgumentError))
    assert "\n" not in str(caught.value)


def test_a_metric_has_its_usual_spelling():
    titles = [
        str(Metric.parse(text))
        for text in ("ndcg@10", "rr", "r@100", "p@1", "ap@5", "hole@10", "R@400 tokens")
    ]
    assert titles == [
        "nDCG@10", "MRR", "recall@100", "P@1", "MAP@5", "Holes@10", "recall@400 tokens"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        # Three documents of 100, 150 and 250 tokens; the second and the third are relevant.
        (99, 0.0),  # the best one counts in any case
        (249, 0.0),
        (250, 0.5),
        (499, 0.5),
        (500, 1.0),
        (5000, 1.0),
    ],
)
def test_a_cutoff_in_tokens_counts_what_fits(budget, expected):
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    lengths = {"a": 100, "b": 150, "c": 250}
    metrics = [f"recall@{budget} tokens", "recall@2", f"hit_rate@{budget}tokens"]
    found = evaluate_per_query(run, {"q": {"b": 1, "c": 2}}, metrics, lengths.__getitem__)
    assert list(found) == metrics
    assert [each["q"] for each in found.values()] == [expected, 0.5, float(expected > 0)]
