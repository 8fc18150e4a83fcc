"""`swiftlet judge`, from an index to qrels that other commands read."""

import shutil
from pathlib import Path

import pytest

import swiftlet as library
from swiftlet.encoders import LOOKUP_QUERY_ENCODER
from swiftlet.relevance.judgements import Judgement, append_judgements
from swiftlet.relevance.log import LoggedSearch, LogWriter
from swiftlet.relevance.pool import Pool, read_pool
from tests.command_line import refusal, swiftlet

SEARCHED = ("where is lava?", "how is bread baked", "who dances for honey?", "how do plants live")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    writer = LogWriter(tmp_path / "log", most_bytes=2**20, days=30)
    writer.append(
        [
            LoggedSearch(
                time=0, id=each, session="", query=each, mode="dense", index="1", hits=[("a", 0.9)]
            )
            for each in SEARCHED
        ]
    )
    writer.close()
    return tmp_path / "log"


def give(folder: Path, pool: Pool, count: int, judge: str = "Ann") -> None:
    """Grade documents by whether their topic is the one of the query."""
    topics = dict(zip(SEARCHED, ("volcano", "bread", "bees", "photosynthesis"), strict=True))
    for query, document in [*pool.documents][:count]:
        is_relevant = document.document_id.startswith(topics[query.text])
        given = Judgement(
            time=0,
            judge=judge,
            query_id=query.query_id,
            document_id=document.document_id,
            grade=3 * is_relevant,
        )
        append_judgements(folder, [given])


def test_a_folder_is_pooled_judged_and_evaluated(
    small_index: Path, log: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "judgements"
    said = swiftlet("judge", folder, "--index", small_index, "--log", log, "--depth", 10)
    assert said.exit_code == 0, said.output
    pool = read_pool(folder)
    assert {each.text for each in pool.queries} == {*SEARCHED}
    assert "4 queries" in said.output
    assert "0 judgements in qrels/test.tsv" in said.output
    give(folder, pool, 10)
    assert "no evidence: too few: 40 more judgements are expected" in refusal(
        swiftlet("judge", folder)
    )
    give(folder, pool, len(pool))
    said = swiftlet("judge", folder)
    assert said.exit_code == 0, said.output
    assert f"{len(pool)} judgements in qrels/test.tsv" in said.output
    arguments = "--queries", folder, "--qrels", folder / "qrels" / "test.tsv"
    measured = swiftlet("evaluate", small_index, *arguments, "--metric", "nDCG@10")
    assert measured.exit_code == 0, measured.output
    assert "4 judged queries" in measured.output


def test_what_was_judged_tunes_the_weight_of_an_index(small_index: Path, tmp_path: Path) -> None:
    index, folder = tmp_path / "index", tmp_path / "judgements"
    shutil.copytree(small_index, index)
    assert swiftlet("judge", folder, "--index", index, "--queries", 12).exit_code == 0
    pool = read_pool(folder)
    append_judgements(
        folder,
        [
            Judgement(
                time=0,
                judge="Ann",
                query_id=query.query_id,
                document_id=document.document_id,
                grade=int(document.title == query.text),
            )
            for query, document in pool.documents
        ],
    )
    assert swiftlet("judge", folder).exit_code == 0
    arguments = "--queries", folder, "--qrels", folder / "qrels" / "test.tsv"
    tuned = swiftlet("tune", index, *arguments)
    assert tuned.exit_code == 0, tuned.output
    assert "nDCG@10 of 12 queries" in tuned.output


def test_documents_that_were_deleted_are_left_out_with_their_judgements(
    small_documents: list[library.Document], log: Path, tmp_path: Path
) -> None:
    index, folder = tmp_path / "index", tmp_path / "judgements"
    library.build(small_documents[:20], index, encoder=LOOKUP_QUERY_ENCODER)
    assert swiftlet("judge", folder, "--index", index, "--log", log).exit_code == 0
    pool = read_pool(folder)
    give(folder, pool, len(pool))
    gone = pool.pairs[0][1]
    with library.write(index) as writer:
        writer.delete([gone])
    said = swiftlet("judge", folder, "--index", index)
    assert said.exit_code == 0, said.output
    count = sum(document == gone for _, document in pool.pairs)
    notes = " ".join(said.stderr.split())
    assert f"{count} documents are left out, because the index lacks them now" in notes
    assert f"{count} judgements do not count" in notes
    assert gone not in (folder / "qrels" / "test.tsv").read_text()
    assert len((folder / "judgements.jsonl").read_text().splitlines()) == len(pool)


def test_the_pool_of_another_index_is_refused(small_index: Path, log: Path, tmp_path: Path) -> None:
    documents = [library.Document("other", "Another text.")]
    library.build(documents, tmp_path / "other", encoder=LOOKUP_QUERY_ENCODER)
    folder = tmp_path / "judgements"
    assert swiftlet("judge", folder, "--index", small_index, "--log", log).exit_code == 0
    before = (folder / "pool.json").read_bytes()
    sentence = refusal(swiftlet("judge", folder, "--index", tmp_path / "other"))
    assert "it is the pool of another index" in sentence
    assert (folder / "pool.json").read_bytes() == before


def test_further_encoders_add_what_they_find(small_index: Path, tmp_path: Path) -> None:
    folder = tmp_path / "judgements"
    asked = "judge", folder, "--index", small_index, "--depth", 3
    assert swiftlet(*asked, "--queries", 12).exit_code == 0
    earlier = read_pool(folder)
    assert swiftlet(*asked, "--encoder", LOOKUP_QUERY_ENCODER).exit_code == 0
    later = read_pool(folder)
    assert {*earlier.pairs} < {*later.pairs}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "there is no pool.json to judge: make it by swiftlet judge"),
        (["--log", "{log}"], "name one by --index"),
        (["--by", "doubt"], "name one by --log"),
        (["--index", "{index}", "--log", "{missing}"], "is no folder; the folder of SWIFTLET_Q"),
        (["--index", "{index}", "--log", "{empty}"], "has no log of searches; the folder of SWI"),
        (["--index", "{index}", "--queries", "0"], "--queries"),
        (["--index", "{missing}"], "missing"),
        (["--llm", "small"], "the language model is 'small', but an address such as"),
        (["--llm", "http://127.0.0.1:9/v1?model=m"], "there is no pool.json to judge"),
    ],
)
def test_bad_input_is_one_sentence(
    small_index: Path, log: Path, tmp_path: Path, options: list[str], sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"log": log, "index": small_index, "missing": tmp_path / "missing"}
    given = [each.format(**places, empty=tmp_path / "empty") for each in options]
    assert sentence in refusal(swiftlet("judge", tmp_path / "judgements", *given))
    assert not (tmp_path / "judgements").exists()


def test_the_queries_of_a_pool_stay(small_index: Path, log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "judgements"
    asked = "judge", folder, "--index", small_index, "--log", log
    assert swiftlet(*asked).exit_code == 0
    assert "are chosen: choose a new folder" in refusal(swiftlet(*asked))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    sentence = refusal(swiftlet("judge", tmp_path / "other", "--index", small_index))
    assert "holds something else" in sentence
