"""How often the answer is in a context of so many tokens, beside grep and reading files.

    python -m experiments.context --data DATA

DATA has the collections in BEIR's layout. The sources are those of the Python that runs this; its
100 questions and the lines that answer stand in experiments/contexts/questions.tsv. Takes half an
hour.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from itertools import product
from time import process_time

import numpy as np

import swiftlet
from experiments.contexts import questions
from experiments.contexts.packing import (
    CONTEXT,
    GREP,
    OWN,
    SEARCH,
    SYSTEMS,
    Grep,
    Ranked,
    packed,
    rankings,
)
from experiments.contexts.questions import Question
from measuring.experiment import Experiment, Found, settings_beside
from measuring.results import Figures
from swiftlet.search.searcher import Searcher
from swiftlet.types import Span

SETTINGS = settings_beside(__file__)
GOAL, _ = SETTINGS["goal"]
EXPERIMENT = Experiment(
    "context", __doc__, [*questions.SETTINGS["splits"]], ["onnxruntime", "tantivy"]
)
CAUSES = ["found", "document", "passage", "cut"]


def figures_of(options: Namespace, name: str, index: str) -> Figures:
    """The share of questions that a context answers, by system and tokens."""
    texts, asked = questions.asked(options.data, name)
    place, settings = options.work / f"{name} of {len(texts)}, {index}", SETTINGS["indexes"][index]
    if not place.exists():
        swiftlet.build(texts, place, encoder=settings.get("encoder"))
    documents, grep = {each.document_id: each for each in texts}, Grep(texts, **SETTINGS["grep"])
    weight, budgets = settings.get("weight"), SETTINGS["budgets"]
    found, causes, places = Counter[tuple[str, int]](), Counter[str](), list[tuple[int, int]]()
    with swiftlet.open(place) as searcher:
        stored = searcher.parts.store.passages(range(searcher.num_passages), include_text=False)
        passages = [each.passage for each in stored]
        for each in asked:
            orders = rankings(searcher, passages, each, weight, max(budgets))
            places.append(ranks(each, orders[CONTEXT]))
            for system, budget in product(SYSTEMS, budgets):
                if system == GREP:
                    excerpts = grep.context(each.text, budget)
                else:
                    excerpts = packed(system, orders[system], documents.__getitem__, budget)
                own = [(e.start, e.end) for e in excerpts if e.document_id == each.document_id]
                found[system, budget] += each.is_found(own)
                if (system, budget) == (CONTEXT, GOAL):
                    causes[cause(each, own)] += 1
        rows: Figures = {"documents": len(texts), "passages": searcher.num_passages}
        rows["milliseconds"] = milliseconds(searcher, asked, weight)
    rows |= {"questions": len(asked), "recall": {}}
    for (system, budget), count in sorted(found.items()):
        rows["recall"].setdefault(system, {})[f"{budget}"] = count / len(asked)
    rows["causes"] = {each: causes[each] / len(asked) for each in CAUSES}
    rows["ranks"] = {
        what: {f"{top}": float(np.mean(of_each < top)) for top in SETTINGS["ranks"]}
        for what, of_each in zip(("document", "passage"), np.array(places).T, strict=True)
    }
    return rows


def cause(asked: Question, spans: Sequence[Span]) -> str:
    """Why an answer is not in a context, by the excerpts of the asked document."""
    if asked.is_found(spans):
        return "found"
    if not spans:
        return "document"
    return "cut" if any(map(asked.touches, spans)) else "passage"


def ranks(asked: Question, ranked: Ranked) -> tuple[int, int]:
    """The places of the asked document and of a passage with a part of an answer."""
    passages = [each for each, _ in ranked]
    own = [each for each in passages if each.document_id == asked.document_id]
    order = [*dict.fromkeys(each.document_id for each in passages)]
    first = order.index(asked.document_id) if own else len(ranked)
    found = (passages.index(each) for each in own if asked.touches((each.start, each.end)))
    return first, next(found, len(ranked))


def milliseconds(searcher: Searcher, asked: Sequence[Question], weight: float | None) -> float:
    """The processor time of a context, on average: the best of three rounds of all questions."""
    seconds = list[float]()
    for _ in range(3):
        began = process_time()
        for each in asked:
            searcher.context(each.text, GOAL, weight=weight)
        seconds.append(process_time() - began)
    return 1000 * min(seconds) / len(asked)


def collected(_options: Namespace, found: Found) -> Figures:
    """The figures of all collections, and the settings."""
    rows: Figures = {}
    for (name, index), figures in found.items():
        rows.setdefault(name, {})[index] = figures
    settings = questions.SETTINGS | SETTINGS
    first = [CONTEXT, SEARCH, OWN]
    return {"rows": rows, "settings": settings, "systems": SYSTEMS, "first_systems": first}


if __name__ == "__main__":
    RUNS = [*product(questions.SETTINGS["collections"], SETTINGS["indexes"])]
    EXPERIMENT.main(lambda _: [RUNS], figures_of, collected)
