"""The collections of the experiments: copied by their hashes, or built from their sources."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from experiments import data
from experiments.data import FORMATS, write_built

SQUAD = {
    "data": [
        {"title": title, "paragraphs": [{"context": f"{title} is old.", "qas": [asked]}]}
        for title, asked in (
            ("Old_Hill", {"id": "q1", "question": "How old? ", "answers": [{"text": "old"}] * 2}),
            ("A_Sea", {"id": "q2", "question": "Which sea?", "answers": []}),
        )
    ]
}


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """A folder with a collection, which is known by its hashes."""
    files = {"corpus.jsonl": '{"_id": "1", "text": "hill"}\n', "qrels/test.tsv": "q\t1\t1\n"}
    (tmp_path / "from" / "hills" / "qrels").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "from" / "hills" / name).write_text(text)
    known = {name: sha256(text.encode()).hexdigest() for name, text in files.items()}
    hills = {"source": "https://example.org/hills, commit 1", "sha256": known}
    monkeypatch.setattr(data, "SOURCES", {"hills": hills, "seas": hills})
    return tmp_path / "from"


def made(tmp_path: Path, *words: str) -> Path:
    data.main(["--out", f"{tmp_path / 'out'}", *words])
    return tmp_path / "out" / "hills"


def test_a_collection_is_copied_and_then_only_checked(source, tmp_path, capsys):
    folder = made(tmp_path, "--from", f"{source}", "hills")
    assert (folder / "qrels" / "test.tsv").read_text() == "q\t1\t1\n"
    made(tmp_path, "hills")
    (folder / "corpus.jsonl").write_text("changed")
    made(tmp_path, "hills")
    assert capsys.readouterr().out.splitlines() == [
        "hills: copied, as in the published figures",
        "hills: was there, as in the published figures",
        "hills: was there; not as in the published figures: corpus.jsonl",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--from", "{}", "hills"], "hills: {}/hills/corpus.jsonl is another file: its sha256"),
        (["--from", "{}", "seas"], "seas: [Errno 2] No such file or directory"),
        (["--from", "{}/none"], "argument --from: {}/none: there is no such file or folder"),
        (
            ["hills"],
            "hills: make it by hand from https://example.org/hills, commit 1; or name a folder ",
        ),
        (["lakes"], "lakes is no collection; known are hills, seas"),
    ],
)
def test_what_cannot_be_made_is_said_and_nothing_is_left(source, tmp_path, capsys, words, sentence):
    (source / "hills" / "corpus.jsonl").write_text("changed")
    with pytest.raises(SystemExit, match="2"):
        made(tmp_path, *(word.format(source) for word in words))
    assert sentence.format(source) in capsys.readouterr().err
    assert not [*tmp_path.glob("out/*")]


def test_articles_become_paragraphs_questions_and_a_test_by_article(tmp_path):
    (tmp_path / "squad.json").write_text(json.dumps(SQUAD))
    address = (tmp_path / "squad.json").as_uri()
    write_built(FORMATS["squad"]({"urls": [address], "test_every": 2}), tmp_path / "out")
    lines = (tmp_path / "out" / "corpus.jsonl").read_text().splitlines()
    titles = [(each["_id"], each["title"]) for each in map(json.loads, lines)]
    assert titles == [("A_Sea_0", "A Sea"), ("Old_Hill_0", "Old Hill")]
    query = json.loads((tmp_path / "out" / "queries.jsonl").read_text().splitlines()[1])
    assert query == {"_id": "q1", "text": "How old?", "metadata": {"answers": ["old"]}}
    qrels = (tmp_path / "out" / "qrels" / "test.tsv").read_text()
    assert qrels == "query-id\tcorpus-id\tscore\nq2\tA_Sea_0\t1\n"


@pytest.mark.real_data
def test_the_files_of_boolq_are_built_to_the_byte(shared_data, tmp_path):
    folder, urls = shared_data / "boolq", []
    read = {n: [*map(json.loads, (folder / n).open())] for n in ("corpus.jsonl", "queries.jsonl")}
    documents, queries = ({row["_id"]: row for row in rows} for rows in read.values())
    for split in ("dev", "test"):
        path = tmp_path / f"{split}.jsonl"
        judged = (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]
        pairs = ((queries[q], documents[d]) for q, d, _ in (line.split("\t") for line in judged))
        rows = [
            {"question": q["text"], "title": d["title"], "passage": d["text"]} for q, d in pairs
        ]
        path.write_text("\n".join(map(json.dumps, rows)))
        urls.append(path.as_uri())
    write_built(FORMATS["rows"]({"urls": urls}), tmp_path / "out")
    assert data.different("boolq", tmp_path / "out") == []


def test_every_collection_has_a_way_to_come():
    for name, source in data.SOURCES.items():
        assert source["licence"], name
        assert len(source["sha256"]) >= 1, name
        assert source.get("format") in FORMATS or "https://" in source["source"], name
