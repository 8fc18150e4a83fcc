"""A folder of many kinds of files, indexed by one command: what is read, lost and skipped.

    python -m benchmarks.first_hour_files --data ../shared/data --work WORK

The files are written from paragraphs of squad-dev, so it is known what they say. Needs the extras
`files` and `arrow`. It takes two minutes.
"""

import csv
import gzip
import html
import json
import re
import subprocess
import sys
import textwrap
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from zipfile import ZipFile

import docx
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib import rc_context
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

import swiftlet
from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, Figures, write_section
from swiftlet.corpora.collections import read_documents, read_qrels, read_queries

FILES_A_KIND, PARAGRAPHS, TOP_K = 40, 3, 10
HEADING = "Any files"
"""The heading of the section that this script writes into the page."""
TITLE = "The first hour"
HEADINGS = Counter({"part": PARAGRAPHS, **{f"{n}": 1 for n in range(1, PARAGRAPHS + 1)}})
_WORD = re.compile(r"\w+")
_FRAME = """<html><head><meta charset="utf-8"><title>{title}</title></head><body>
<nav><a href="/">Home</a> <a href="/shop">Shop</a> <a href="/login">Sign in</a></nav>
<aside>Subscribe to our newsletter and accept all cookies.</aside>
<article><h1>{title}</h1>{body}</article>
<footer>Imprint. Terms of service. All rights reserved.</footer></body></html>"""


@dataclass(frozen=True)
class Article:
    """Some paragraphs of one title, and the questions that they answer."""

    name: str
    title: str
    paragraphs: Sequence[str]
    questions: Sequence[str]

    @property
    def words(self) -> Counter[str]:
        return words_of(f"{self.title} {' '.join(self.paragraphs)}")


def main() -> None:
    options = script_options(__doc__, data=Path, work=Path, raw=RESULTS / "first-hour.json")
    folder = options.work / "documents"
    if folder.exists():
        raise SystemExit(f"{folder} exists: remove it, or choose another --work")
    articles = articles_of(options.data / "squad-dev-v1.1")
    written = write_files(folder, articles)
    write_bad_files(folder, next(articles))
    places = [folder, *sorted(options.work.glob("more.*"))]
    index = options.work / "index"
    command = ["index", *places, "--out", index, "--skip-bad-lines", "--overwrite"]
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", "swiftlet", *map(str, command)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    said = [line.replace(f"{options.work}/", "") for line in ended.stderr.splitlines()]
    figures = {
        "template": "benchmarks/first_hour_files.md.j2",
        "machine": describe_machine(
            ["trafilatura", "python-docx", "pypdfium2", "pyarrow"], threads="all cores"
        ),
        "command": " ".join(map(str, command)).replace(f"{options.work}/", ""),
        "status": ended.returncode,
        "seconds": seconds,
        "said": [line for line in said if not line.startswith("✓")],
        "result": ended.stdout.replace(f"{options.work}/", "").strip(),
        "files": sum(
            1 for path in options.work.rglob("*") if path.is_file() and index not in path.parents
        ),
        "top_k": TOP_K,
        "kinds": measure(places, index, written),
    }
    print(write_section(options.raw, TITLE, HEADING, figures))


def articles_of(collection: Path) -> Iterator[Article]:
    """Articles of a few paragraphs each, in the order of the collection."""
    asked = defaultdict(list)
    queries = {query.query_id: query.text for query in read_queries(collection)}
    for split in ("train", "test"):
        for query_id, found in read_qrels(collection / "qrels" / f"{split}.tsv").items():
            for document_id in found:
                asked[document_id].append(queries[query_id])
    of_title = defaultdict(list)
    for document in read_documents(collection):
        of_title[document.title].append(document)
    for title, documents in of_title.items():
        for number, start in enumerate(range(0, len(documents), PARAGRAPHS)):
            part = documents[start : start + PARAGRAPHS]
            name = f"{re.sub('[^a-z0-9]+', '-', title.lower())}-{number}"
            questions = [text for each in part for text in asked[each.document_id]]
            yield Article(name, title, [each.text for each in part], questions)


def write_files(folder: Path, articles: Iterator[Article]) -> dict[str, list[tuple[str, Article]]]:
    """Write files of each kind; by kind, the articles with the begin of their documents' ids."""
    writers: dict[str, Callable[[Path, Article], object]] = {
        ".txt": write_text,
        ".md": write_markdown,
        ".html": write_page,
        ".docx": write_word,
        ".pdf": write_pdf,
    }
    written: dict[str, list[tuple[str, Article]]] = {}
    for suffix, write in writers.items():
        place = folder / suffix.removeprefix(".")
        place.mkdir(parents=True)
        written[suffix] = []
        for article in islice(articles, FILES_A_KIND):
            write(place / f"{article.name}{suffix}", article)
            name = f"{folder.name}/{place.name}/{article.name}{suffix}"
            written[suffix].append((name, article))
    rows = {name: [*islice(articles, FILES_A_KIND)] for name in ("csv", "parquet", "jsonl.gz")}
    more = folder.parent / "more"
    with more.with_suffix(".csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["id", "title", "text", "year"])
        table.writeheader()
        table.writerows(records_of(rows["csv"]))
    nested = [
        {**row, "source": {"page": 3, "tags": ["a", "b"]}} for row in records_of(rows["parquet"])
    ]
    pq.write_table(pa.Table.from_pylist(nested), more.with_suffix(".parquet"))
    with gzip.open(more.with_suffix(".jsonl.gz"), "wt") as lines:
        lines.writelines(f"{json.dumps(row)}\n" for row in records_of(rows["jsonl.gz"]))
    for name, found in rows.items():
        written[f".{name}"] = [(article.name, article) for article in found]
    with ZipFile(more.with_suffix(".zip"), "w") as archive:
        written[".zip"] = []
        for article in islice(articles, FILES_A_KIND):
            archive.writestr(f"notes/{article.name}.md", markdown_of(article))
            written[".zip"].append((f"notes/{article.name}.md", article))
    return written


def records_of(articles: Iterable[Article]) -> Iterator[dict[str, object]]:
    for article in articles:
        text = "\n".join(article.paragraphs)
        yield {"id": article.name, "title": article.title, "text": text, "year": 2024}


def write_text(path: Path, article: Article) -> None:
    path.write_text("\n\n".join([article.title, *article.paragraphs]))


def markdown_of(article: Article) -> str:
    parts = (f"## Part {number}\n\n{text}" for number, text in enumerate(article.paragraphs, 1))
    return "\n\n".join([f"# {article.title}", *parts])


def write_markdown(path: Path, article: Article) -> None:
    path.write_text(markdown_of(article))


def write_page(path: Path, article: Article) -> None:
    body = "".join(
        f"<h2>Part {n}</h2><p>{html.escape(text)}</p>"
        for n, text in enumerate(article.paragraphs, 1)
    )
    path.write_text(_FRAME.format(title=html.escape(article.title), body=body))


def write_word(path: Path, article: Article) -> None:
    document = docx.Document()
    document.add_heading(article.title, 0)
    for number, text in enumerate(article.paragraphs, 1):
        document.add_heading(f"Part {number}", 1)
        document.add_paragraph(text)
    document.save(str(path))


def write_pdf(path: Path, article: Article) -> None:
    with rc_context({"pdf.fonttype": 42}), PdfPages(path) as pages:
        for number, text in enumerate(article.paragraphs):
            page = Figure((8.3, 11.7))
            lines = textwrap.fill(text.replace("$", r"\$"), 80)
            page.text(0.1, 0.95, f"{article.title if not number else ''}\n\n{lines}", va="top")
            pages.savefig(page)


def write_bad_files(folder: Path, article: Article) -> None:
    """Files that cannot be read, each for another reason."""
    place = folder / "bad"
    place.mkdir()
    write_pdf(place / "broken.pdf", article)
    whole = (place / "broken.pdf").read_bytes()
    (place / "broken.pdf").write_bytes(whole[: len(whole) // 2].replace(b"%PDF", b"%XXX"))
    with PdfPages(place / "scanned.pdf") as pages:
        page = Figure()
        page.add_axes((0, 0, 1, 1)).imshow([[0, 1], [1, 0]])
        page.axes[0].set_axis_off()
        pages.savefig(page)
    (place / "broken.docx").write_bytes(b"PK\3\4 no archive")
    (place / "latin-1.txt").write_bytes("Ein Käfer läuft über die Straße.".encode("latin-1"))
    (place / "empty.md").write_text("")
    for name in ("photo.jpg", "slides.pptx", "sheet.xlsx"):
        (place / name).write_bytes(b"\0")
    with folder.with_name("more.bad.csv").open("w") as file:
        file.write("number,name,colour\n1,one,red\n")


def words_of(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


def measure(
    places: Sequence[Path], index: Path, written: dict[str, list[tuple[str, Article]]]
) -> list[Figures]:
    """For each kind of file, how many words were read of those written, and what is found."""
    read = defaultdict(list)
    for document in read_documents([*places], skipped=swiftlet.SkippedLines()):
        read[document.document_id.partition("#")[0]].append(document)
    rows = []
    with swiftlet.open(index) as searcher:
        for kind, articles in written.items():
            lost, added, of_all, found = 0, 0, 0, []
            for name, article in articles:
                documents = read[name]
                text = " ".join(each.text for each in documents)
                first_line = text.partition("\n")[0].removeprefix("# ")
                if first_line != article.title == documents[0].title:
                    text += f" {article.title}"
                was = words_of(text)
                lost += sum((article.words - was).values())
                added += sum((was - article.words - HEADINGS).values())
                of_all += article.words.total()
                for question in article.questions:
                    hits = searcher.search(question, TOP_K)
                    found.append(any(hit.document_id.partition("#")[0] == name for hit in hits))
            rows.append(
                {
                    "kind": kind,
                    "files": len({name for name, _ in articles if "/" in name}) or 1,
                    "documents": sum(len(read[name]) for name, _ in articles),
                    "lost": lost / of_all,
                    "added": added / of_all,
                    "questions": len(found),
                    "found": fmean(found),
                }
            )
    return rows


if __name__ == "__main__":
    main()
