"""Collections in BEIR's layout, built from the files of their public sources."""

import io
import json
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from swiftlet.extras import extra

Source = Mapping[str, Any]
Record = dict[str, Any]
Qrels = dict[str, dict[str, int]]


class Built(NamedTuple):
    """Documents and queries as BEIR has them, and the qrels by the name of the split."""

    documents: list[Record]
    queries: list[Record]
    qrels: dict[str, Qrels]


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return bytes(answer.read())


def of_ir_datasets(source: Source) -> Built:
    """A data set of ir_datasets, whose own files have hashes of their own."""
    with extra("irds"):
        import ir_datasets
    found: dict[str, Any] = {n: ir_datasets.load(name) for n, name in source["splits"].items()}
    read = next(iter(found.values())).docs_iter()
    documents = [{"_id": each.doc_id, "title": each.title, "text": each.text} for each in read]
    queries = {q.query_id: q.text for each in found.values() for q in each.queries_iter()}
    qrels: dict[str, Qrels] = {split: {} for split in found}
    for split, each in found.items():
        for row in each.qrels_iter():
            qrels[split].setdefault(row.query_id, {})[row.doc_id] = row.relevance
    return Built(documents, [{"_id": key, "text": text} for key, text in queries.items()], qrels)


def of_squad(source: Source) -> Built:
    """Articles in the format of SQuAD; with `test_every`, every so many articles are the test."""
    articles = [a for each in source["urls"] for a in json.loads(fetched(each))["data"]]
    documents, queries = [], []
    qrels: dict[str, Qrels] = {}
    for number, article in enumerate(sorted(articles, key=lambda each: each.get("title", ""))):
        splits = ["all"]
        if every := source.get("test_every"):
            splits.append("train" if number % every else "test")
        for place, paragraph in enumerate(article["paragraphs"]):
            title = article.get("title") or f"C{number}"
            own = f"{title}_{place}"
            texts = {"title": title.replace("_", " "), "text": paragraph["context"]}
            documents.append({"_id": own, **texts})
            for asked in paragraph["qas"]:
                answers = list(dict.fromkeys(each["text"] for each in asked["answers"]))
                query = {"_id": f"{asked['id']}", "text": asked["question"].strip()}
                queries.append({**query, "metadata": {"answers": answers}})
                for split in splits:
                    qrels.setdefault(split, {})[query["_id"]] = {own: 1}
    return Built(documents, queries, qrels)


def of_rows(source: Source) -> Built:
    """A question and its passage in each line; a file is a split. Equal passages become one."""
    ids: dict[tuple[str, str], str] = {}
    queries: list[Record] = []
    qrels: dict[str, Qrels] = {}
    for address in source["urls"]:
        split = Path(address).stem
        rows = [json.loads(line) for line in fetched(address).decode().splitlines()]
        for number, row in enumerate(rows):
            own = ids.setdefault((row.get("title", ""), row["passage"]), f"P{len(ids)}")
            queries.append({"_id": f"{split}-{number}", "text": row["question"]})
            qrels.setdefault(split, {})[f"{split}-{number}"] = {own: 1}
    documents = [{"_id": i, "title": title, "text": text} for (title, text), i in ids.items()]
    return Built(documents, queries, qrels)


def of_passages(source: Source) -> Built:
    """A list of titles and texts, without queries."""
    rows = [row for each in source["urls"] for row in json.loads(fetched(each))]
    texts = ({"title": row["title"], "text": row["text"]} for row in rows)
    return Built([{"_id": f"W{number}", **each} for number, each in enumerate(texts)], [], {})


def _members(source: Source, suffix: str) -> Iterator[tuple[Path, bytes]]:
    """The files of the archives, in the order of their names."""
    for address in source["urls"]:
        with zipfile.ZipFile(io.BytesIO(fetched(address))) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(suffix):
                    yield Path(name), archive.read(name)


def of_qmsum(source: Source) -> Built:
    """The meetings of data/ALL, and the specific queries of each."""
    documents, queries, qrels = [], [], dict[str, Qrels]()
    found = [each for each in _members(source, ".json") if each[0].parent.parent.name == "ALL"]
    order = ("train", "val", "test")
    for path, content in sorted(found, key=lambda each: order.index(each[0].parent.name)):
        meeting = json.loads(content)
        turns = [f"{t['speaker']}: {t['content']}" for t in meeting["meeting_transcripts"]]
        more = {"split": path.parent.name, "turns": len(turns)}
        text = "\n".join(turns)
        documents.append({"_id": path.stem, "title": "", "text": text, "metadata": more})
        for number, each in enumerate(meeting["specific_query_list"]):
            name = f"{path.stem}-s{number}"
            queries.append({"_id": name, "text": each["query"]})
            qrels.setdefault(path.parent.name, {})[name] = {path.stem: 1}
    return Built(documents, queries, qrels)


def of_medquad(source: Source) -> Built:
    """Questions and the distinct answers to them; those without an answer are left out."""
    documents: dict[str, Record] = {}
    queries, qrels = [], Qrels()
    for path, content in _members(source, ".xml"):
        document = ElementTree.fromstring(content)
        focus = " ".join((document.findtext("Focus") or "").split())
        of_file = {"url": document.get("url"), "source": path.parent.name}
        for pair in document.iter("QAPair"):
            question, answer = pair.find("Question"), pair.findtext("Answer") or ""
            text = " ".join(answer.split())
            if question is not None and text:
                new = {"_id": f"M{len(documents)}", "title": focus, "text": text}
                own = documents.setdefault(text, {**new, "metadata": of_file})
                name = f"{path.parent.name}-{path.stem}-{pair.get('pid')}-{question.get('qid')}"
                asked = {"_id": name, "text": " ".join((question.text or "").split())}
                kind = {"qtype": question.get("qtype"), "focus": focus}
                queries.append({**asked, "metadata": kind})
                qrels[name] = {own["_id"]: 1}
    return Built([*documents.values()], queries, {"all": qrels})


FORMATS: dict[str, Callable[[Source], Built]] = {
    "ir_datasets": of_ir_datasets, "squad": of_squad, "rows": of_rows, "passages": of_passages,
    "qmsum": of_qmsum, "medquad": of_medquad,
}  # fmt: skip
