"""Distinct texts are read from query logs and corpora, and some are held out."""

import json
from pathlib import Path

import pytest

import swiftlet
from swiftlet.errors import CollectionError
from training.distillation.settings import Distillation
from training.distillation.texts import TextSource, hold_out, read_query_texts, read_texts
from training.errors import TrainingDataError


def settings(**values: object) -> Distillation:
    return Distillation(**({"teacher": "teacher", "layers": (0,)} | values))  # type: ignore[arg-type]


def write_log(path: Path, count: int, start: int = 0) -> Path:
    path.write_text("\n".join(f"query number {n}" for n in range(start, start + count)))
    return path


def test_lines_of_text_jsonl_and_beir_folders_are_query_logs(tmp_path):
    (tmp_path / "log.txt").write_text("first query\n\nsecond query\n")
    records = [{"text": "first query"}, {"query": "second query", "user": 7}]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, records)))
    queries = [{"_id": "a", "text": "first query"}, {"_id": "b", "text": "second query"}]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    for path in (tmp_path / "log.txt", tmp_path / "log.jsonl", tmp_path):
        assert list(read_query_texts(path)) == ["first query", "second query"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"text": " "}', "has no text"),
        ('{"id": "a"}', 'there is no "text"'),
        ('{"text": 7}', '"text" is a number, not a string'),
        ("[1]", "the record is an array, not a JSON object"),
    ],
)
def test_a_bad_line_of_a_log_is_named(line, reason, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"text": "good"}\n' + line)
    with pytest.raises(CollectionError) as caught:
        list(read_query_texts(path))
    assert f"{path}, line 2: " in str(caught.value)
    assert reason in str(caught.value)


def test_an_empty_log_is_refused_by_name(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("")
    with pytest.raises(CollectionError, match=r"log\.txt: the file is empty"):
        read_texts(settings(queries=(str(path),)))


def test_too_few_texts_are_refused_with_their_number(tmp_path):
    log = write_log(tmp_path / "log.txt", 19)
    with pytest.raises(TrainingDataError, match=r"19 distinct texts are too few, at least 20"):
        read_texts(settings(queries=(str(log),)))


def test_the_same_text_counts_once_and_white_space_does_not_count():
    source = TextSource.of("log", [" a query\n", "a query", "another", "  "])
    assert source.lines == ("a query", "another")


def test_the_key_of_a_source_depends_on_its_texts_alone():
    first = TextSource.of("one", ["a", "b"])
    assert TextSource.of("two", ["a", "b"]).key == first.key
    assert TextSource.of("one", ["b", "a"]).key != first.key
    assert TextSource.of("one", ["ab"]).key != first.key


def test_a_tenth_of_the_queries_at_most_is_held_out_and_none_of_it_is_trained_on():
    log = TextSource.of("log", [f"Query {n}" for n in range(100)])
    sampled = TextSource.of("sentences", [f"query {n}" for n in range(50, 150)])
    mixture = hold_out([log, sampled], 1, wanted=30)
    held_out = mixture.texts(mixture.held_out)
    trained = {text.casefold() for text in mixture.texts(mixture.training)}
    assert len(held_out) == 10
    assert all(text.startswith("Query ") for text in held_out)
    assert not trained & {text.casefold() for text in held_out}
    assert len(trained) == 150 - 10


def test_held_out_texts_do_not_depend_on_the_rest_of_the_mixture():
    log = TextSource.of("log", [f"query {n}" for n in range(100)])
    sentences = TextSource.of("sentences", [f"sentence {n}" for n in range(1000)])
    alone, mixed = hold_out([log], 1, 8), hold_out([log, sentences], 1, 8)
    assert set(alone.texts(alone.held_out)) == set(mixed.texts(mixed.held_out))


def test_without_a_log_sentences_are_held_out(tmp_path):
    lines = [json.dumps({"_id": str(n), "text": f"Sentence {n} of it."}) for n in range(40)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    mixture = read_texts(settings(corpora=(str(tmp_path),), sentences=30))
    assert len(mixture.training) + len(mixture.held_out) == 30
    assert len(mixture.held_out) == 3


def test_an_index_is_a_corpus_with_its_changes(tmp_path):
    texts = {str(n): f"Sentence {n} of it." for n in range(25)}
    index = tmp_path / "index"
    swiftlet.build([{"_id": n, "text": text} for n, text in texts.items()], index)
    with swiftlet.write(index) as writer:
        writer.delete(["3"])
        writer.put([{"_id": "4", "text": "Another one."}])
    (source,) = read_texts(settings(corpora=(str(index),))).sources
    assert {*source.lines} == {*texts.values(), "Another one."} - {texts["3"], texts["4"]}


def test_logs_and_sentences_mix(tmp_path):
    log = write_log(tmp_path / "log.txt", 30)
    lines = [json.dumps({"_id": str(n), "text": f"Sentence {n} of it."}) for n in range(40)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    mixture = read_texts(settings(queries=(str(log),), corpora=(str(tmp_path),)))
    assert [len(source.lines) for source in mixture.sources] == [30, 40]
    assert all(text.startswith("query") for text in mixture.texts(mixture.held_out))
