"""The demo's answers: thirty questions about the standard library, and the pages they should find.

    python -m benchmarks.demo --index .demo/python-3.11.7 --before EARLIER

measures the index of `make demo`, and if you like an earlier one. Writes docs/results/demo.json and
its page. `benchmarks/demo_questions/` has the questions and the qrels in BEIR's layout; the qrels
give the module that answers a question 2, and others that can answer it 1.
"""

from pathlib import Path

import swiftlet
from loadtests.command_line import script_options
from loadtests.results import RESULTS, Figures, write
from swiftlet.corpora.collections import read_queries
from swiftlet.corpora.trec import read_qrels
from swiftlet.evaluation.machine import describe_machine
from swiftlet.search.request import MODES

QUESTIONS = Path(__file__).parent / "demo_questions"
METRICS = ("nDCG@10", "hit_rate@1")


def main() -> None:
    options = script_options(__doc__, index=Path, before=None, raw=RESULTS / "demo.json")
    given = {"before": options.before, "now": options.index}
    qrels = read_qrels(QUESTIONS / "qrels" / "test.tsv")
    queries = read_queries(QUESTIONS)
    rows: list[Figures] = []
    answers: dict[str, Figures] = {query.query_id: {"question": query.text} for query in queries}
    for name, path in given.items():
        if path is None:
            continue
        with swiftlet.open(path) as searcher:
            for mode in MODES:
                report = swiftlet.evaluate(searcher, QUESTIONS, qrels, mode=mode, metrics=METRICS)
                size = {"documents": searcher.num_documents, "passages": searcher.num_passages}
                rows.append({"index": name, **size, "mode": mode, **report.means})
            for query in queries:
                found = searcher.search(query.text, 1).hits[0].document_id
                right = found in qrels[query.query_id]
                answers[query.query_id][name] = found if right else f"{found} (wrong)"
    figures = {
        "template": "benchmarks/demo.md.j2",
        "machine": describe_machine([], threads="1"),
        "rows": rows,
        "answers": [*answers.values()],
    }
    print(write(options.raw, figures))


if __name__ == "__main__":
    main()
