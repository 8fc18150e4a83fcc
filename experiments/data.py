"""Makes the collections of the experiments: from their public sources, or from a folder with them.

    python -m experiments.data --out DATA                  (all, from the addresses of data.toml)
    python -m experiments.data --out DATA --from FOLDER    (copies; every hash must be as expected)
    python -m experiments.data --out DATA scifact qmsum    (some)

What is there already is only checked. A collection that is built from its source may differ in
details from the files that the published figures were measured with; this is said, and no error.
"""

import io
import json
import shutil
import sys
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from xml.etree import ElementTree

from measuring.command_line import Parser, existing
from measuring.experiment import settings_beside
from swiftlet.errors import RetrievalError
from swiftlet.extras import extra
from swiftlet.types import Qrels

Source = Mapping[str, Any]
Record = dict[str, Any]


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


SOURCES: dict[str, dict[str, Any]] = settings_beside(__file__)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = Parser(prog="experiments.data", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SOURCES)}")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the collections")
    parser.add_argument("--from", dest="source", type=existing, help="a folder that has them")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in SOURCES]:
        parser.error(f"{unknown[0]} is no collection; known are {', '.join(SOURCES)}")
    failed = []
    for name in options.names or SOURCES:
        try:
            print(f"{name}: {made(name, options.out / name, options.source)}", flush=True)
        except (OSError, ValueError, RetrievalError) as error:
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    if failed:
        parser.error(f"{len(failed)} of the collections are not there: {', '.join(failed)}")


def made(name: str, place: Path, source: Path | None) -> str:
    """Make a collection in `place` unless it is there; what was done.

    :raises ValueError: When a copy is not the expected one, or there is no way to build it.
    """
    if place.exists():
        return "was there" + about(different(name, place))
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=place.parent, prefix=".") as working:
        folder = Path(working, name)
        if source is not None:
            for file in SOURCES[name]["sha256"]:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name / file, folder / file)
            if wrong := different(name, folder):
                raise ValueError(f"{source / name / wrong[0]} is another file: its sha256 differs")
        elif "format" in SOURCES[name]:
            write_built(FORMATS[SOURCES[name]["format"]](SOURCES[name]), folder)
        else:
            raise ValueError(
                f"make it by hand from {SOURCES[name]['source']}; or name a folder that has it by "
                "--from"
            )
        folder.rename(place)
    return ("copied" if source else "built") + about(different(name, place))


def write_built(built: Built, folder: Path) -> None:
    """Write a BEIR folder; a split `NAME_disjoint` has no document of another split."""
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", built.documents), ("queries", built.queries)):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        if lines:
            (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    for split, qrels in built.qrels.items():
        elsewhere = {document for name, found in built.qrels.items() if name not in {split, "all"}
                     for grades in found.values() for document in grades}  # fmt: skip
        alone = {query: grades for query, grades in qrels.items() if not elsewhere & grades.keys()}
        write_qrels(qrels, folder / "qrels" / f"{split}.tsv")
        write_qrels(alone, folder / "qrels" / f"{split}_disjoint.tsv")


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write judgements as a file with a head."""
    rows = [f"{q}\t{d}\t{grade}" for q, grades in qrels.items() for d, grade in grades.items()]
    path.write_text("\n".join(["query-id\tcorpus-id\tscore", *rows, ""]), "utf-8")


def different(name: str, place: Path) -> list[str]:
    """The files of a collection that are not those of the published figures."""
    return [
        file
        for file, expected in SOURCES[name]["sha256"].items()
        if not (place / file).is_file()
        or sha256((place / file).read_bytes()).hexdigest() != expected
    ]


def about(files: Sequence[str]) -> str:
    if not files:
        return ", as in the published figures"
    return f"; not as in the published figures: {', '.join(files)}"


if __name__ == "__main__":
    main()
