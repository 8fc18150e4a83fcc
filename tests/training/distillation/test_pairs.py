"""An encoder that learns from the passages of an index and their vectors, without a teacher."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, count
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional

from swiftlet.cli.models.distill import sentence_of
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.errors import EmbeddingSpaceMismatch, InvalidArgumentError
from swiftlet.index.building.adopt import adopt
from swiftlet.index.building.build import build
from swiftlet.index.documents.passages import encoder_text
from swiftlet.index.updates.directory_writer import write
from swiftlet.manifest import load_manifest, read_manifest
from swiftlet.types import Document, Embeddings
from tests.runs import Listener, records
from training.distillation.distill import distill
from training.distillation.pairs import read_pairs
from training.distillation.settings import Distillation
from training.distillation.student import Student
from training.distillation.verdict import Verdict
from training.errors import TrainingDataError
from training.model.towers import Tower, TowerSettings
from training.objective.ridge import fit_map

LOOKUP = LOOKUP_QUERY_ENCODER.name
PLACES = ["caves", "cliffs", "forests", "harbours", "islands"]
ANIMALS = ["swiftlets", "bats", "beetles", "crabs", "geckos", "herons"]
WIDTH = 24
loaded = cache(OnnxEncoder.load)


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """An index of 60 documents, with vectors in a space that no encoder has; read only."""
    out = tmp_path_factory.mktemp("own") / "index"
    documents = [
        Document(f"{a}-{p}-{n}", f"{a} live in {p}. They {verb} in {p}.", f"the {a} of {p}")
        for a in ANIMALS
        for p in PLACES
        for n, verb in enumerate(("sleep", "eat"))
    ]
    texts = [encoder_text(each.title, each.text) for each in documents]
    adopt(projected(texts), out, texts=documents, language=None)
    return out


def projected(texts: Sequence[str]) -> Embeddings:
    """Vectors (n, 24) of texts: a random projection of those of the encoder that ships."""
    encoder = loaded(DEFAULT_QUERY_ENCODER)
    matrix = np.random.default_rng(0).normal(size=(encoder.dim, WIDTH))
    found = encoder.encode(texts) @ matrix
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


def test_the_closed_form_finds_a_projected_space_and_a_table_is_saved_projected(tmp_path):
    texts = [f"{a} of the {p} {extra}" for a in ANIMALS for p in PLACES for extra in PLACES]
    wanted = torch.from_numpy(projected(texts))
    settings = Distillation(index="any", student=LOOKUP)
    student = Student.make(settings, WIDTH)
    with torch.inference_mode():
        outputs = student.tower(student.tower.tokenise(texts))
    learnt, other = slice(0, None, 2), slice(1, None, 2)
    assert student.projection is not None
    fit_map(student.projection, *((outputs[part], wanted[part]) for part in (learnt, other)))
    with torch.inference_mode():
        found = student(student.tower.tokenise(texts[other]))
    assert functional.cosine_similarity(found, wanted[other]).mean() > 0.9
    student.save(tmp_path / "encoder")
    saved = Tower.load(TowerSettings(tmp_path / "encoder"))
    assert saved.is_lookup
    with torch.inference_mode():
        again = saved(saved.tokenise(texts[other]))
    torch.testing.assert_close(again, found, atol=1e-5, rtol=1e-4)


def test_an_index_teaches_an_encoder_of_its_space_and_judges_it(own, tmp_path):
    settings = Distillation(index=str(own), student=LOOKUP, projection_only=True)
    outcome = distill(settings, tmp_path / "run", progress=Listener())
    manifest = load_manifest(tmp_path / "run", "model")
    assert manifest.embedding_space == read_manifest(own).embedding_space
    assert outcome.best_step == 0
    assert outcome.num_held_out == 6
    assert outcome.cosine > 0.8
    verdict = outcome.verdict
    assert verdict is not None
    assert verdict.overlap is None
    assert verdict.passages > 0.5
    assert verdict.known_items is not None
    assert verdict.known_items > 0.3
    assert not verdict.cannot_read
    assert verdict.is_good is manifest.details["verdict"]["is_good"]


@pytest.mark.parametrize(("epochs", "seconds", "stops"), [(8.0, 3.5, [3]), (0.01, 1.5, [])])
def test_a_training_ends_at_the_first_step_after_its_minutes_with_a_note_unless_it_is_whole(
    epochs, seconds, stops, own, tmp_path, monkeypatch
):
    ticks = count()
    monkeypatch.setattr("training.distillation.task.monotonic", lambda: float(next(ticks)))
    settings = Distillation(index=str(own), student=LOOKUP, epochs=epochs, minutes=seconds / 60)
    progress = Listener()
    outcome = distill(settings, tmp_path / "run", compare=False, progress=progress)
    assert [each["step"] for each in records(tmp_path / "run", "stop")] == stops
    expected, *ends = progress.notes
    assert f"passages, then {24 if stops else 1} steps of" in expected
    assert len(ends) == len(stops)
    assert outcome.best_step == (stops or [1])[0]


class Describing(Listener):
    """Keeps the words of the progress line, too."""

    def describe(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.check
@pytest.mark.parametrize("step", [2, 40])
def test_a_training_whose_first_steps_take_much_longer_revises_its_length(
    step, own, tmp_path, monkeypatch
):
    # The closed form takes no time, and four steps take four seconds.
    times = chain([0, 0, 0, 4], count(100, step))
    monkeypatch.setattr("training.distillation.task.perf_counter", lambda: float(next(times)))
    settings = Distillation(index=str(own), student=LOOKUP, epochs=4.0)
    progress = Describing()
    distill(settings, tmp_path / "run", compare=False, progress=progress)
    revised = [each for each in progress.notes if "slower than expected" in each]
    assert [each[:36] for each in revised] == ["40 times slower than expected: about"] * (step > 3)


class Interrupting(Listener):
    """Interrupts a training at its second report of steps."""

    def advance(self, steps: int) -> None:
        self.stages.append(("steps", None, steps))
        if [name for name, *_ in self.stages].count("steps") == 2:
            raise KeyboardInterrupt


def test_a_short_training_that_is_interrupted_goes_on_in_its_middle_or_is_finished_there(
    own, tmp_path
):
    settings = Distillation(index=str(own), student=LOOKUP, epochs=8.0)
    first, second = Interrupting(), Interrupting()
    for progress, resume in ((first, False), (second, True)):
        with pytest.raises(KeyboardInterrupt, match="--resume to continue, or with --finish"):
            distill(settings, tmp_path / "run", compare=False, progress=progress, resume=resume)
    (steps,) = {total for name, total, _ in first.stages if name.startswith("Stage")}
    assert steps is not None
    every = steps // 10
    assert ("Stage 1: distillation", steps, every) in second.stages
    outcome = distill(settings, tmp_path / "run", compare=False, progress=Listener(), finish=True)
    assert outcome.best_step == 2 * every


@pytest.mark.check
@pytest.mark.parametrize(("learning_rate", "helps"), [(3e-3, True), (3.0, False)])
def test_the_better_one_of_the_closed_form_and_the_training_is_kept(
    learning_rate, helps, own, tmp_path
):
    settings = Distillation(index=str(own), student=LOOKUP, projection_only=True)
    closed = distill(settings, tmp_path / "closed", progress=Listener()).verdict
    settings = Distillation(index=str(own), student=LOOKUP, epochs=4.0, learning_rate=learning_rate)
    with pytest.raises(KeyboardInterrupt):
        distill(settings, tmp_path / "run", progress=Interrupting())
    outcome = distill(settings, tmp_path / "run", progress=Listener(), resume=True)
    assert closed is not None
    assert outcome.verdict is not None
    trained = outcome.verdict.trained
    assert trained is not None
    assert closed.before is None
    assert outcome.verdict.before == pytest.approx(closed.figure)
    assert (outcome.best_step > 0) is (trained > closed.figure) is helps
    assert outcome.verdict.figure == pytest.approx(max(trained, closed.figure))


def test_queries_with_the_vectors_of_a_teacher_are_learnt_beside_the_passages(tmp_path):
    documents = [{"_id": f"{a}-{p}", "text": f"{a} in {p}"} for a in ANIMALS for p in PLACES]
    build(documents, tmp_path / "index", language=None)
    log = tmp_path / "log.txt"
    log.write_text("\n".join(f"where do {a} meet {b}" for a in ANIMALS for b in ANIMALS))
    settings = Distillation(
        index=str(tmp_path / "index"),
        teacher=DEFAULT_QUERY_ENCODER.name,
        pairs=True,
        queries=(str(log),),
        student=LOOKUP,
        projection_only=True,
    )
    outcome = distill(settings, tmp_path / "run", progress=Listener())
    assert outcome.num_held_out == 3
    assert outcome.verdict is not None
    assert outcome.verdict.queries == 33
    assert outcome.verdict.overlap == outcome.overlaps[0].overlap_10
    assert outcome.verdict.own_known_items is not None
    assert outcome.verdict.own_known_items > 0.3


def embed(texts: list[str]) -> Embeddings:
    return 3 * projected(texts)


def embed_otherwise(texts: list[str]) -> Embeddings:
    return projected(texts)[:, ::-1]


def test_a_function_is_a_teacher_if_it_gives_the_vectors_of_the_index(own, tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("\n".join(f"where do {a} meet {b}" for a in ANIMALS for b in ANIMALS))
    settings = Distillation(
        index=str(own),
        teacher="tests.training.distillation.test_pairs:embed",
        pairs=True,
        queries=(str(log),),
        student=LOOKUP,
        projection_only=True,
    )
    outcome = distill(settings, tmp_path / "run", progress=Listener())
    assert outcome.verdict is not None
    assert outcome.verdict.queries == 33
    assert outcome.verdict.overlap is not None
    assert outcome.verdict.overlap > 0.5
    manifest = load_manifest(tmp_path / "run", "model")
    assert manifest.embedding_space == read_manifest(own).embedding_space
    other = settings.model_copy(update={"teacher": f"{settings.teacher}_otherwise"})
    with pytest.raises(EmbeddingSpaceMismatch, match="of the embedding space of the index: of"):
        distill(other, tmp_path / "other", progress=Listener())


def test_passages_are_read_with_their_changes_and_none_of_a_document_held_out_is_learnt(
    own, tmp_path
):
    index = tmp_path / "index"
    build([{"_id": f"{n}", "text": f"text number {n}"} for n in range(40)], index, language=None)
    with write(index) as writer:
        writer.put([{"_id": "new", "text": "a text that was put later"}])
        writer.delete(["7"])
    pairs = read_pairs(index, read_manifest(index, "index"), 0)
    assert "a text that was put later" in pairs.passages.lines
    assert "text number 7" not in pairs.passages.lines
    encoder = OnnxEncoder.load(DEFAULT_QUERY_ENCODER.with_name("all-MiniLM-L6-v2"))
    expected = encoder.encode(pairs.passages.lines)
    assert pairs.passages.outputs is not None
    assert (expected * pairs.passages.outputs).sum(axis=1).min() > 0.99
    mixture = pairs.mixture(None, Distillation(index="any"))
    assert len(mixture.held_out) == 4
    assert not set(mixture.held_out) & set(mixture.training)
    titled = read_pairs(own, read_manifest(own, "index"), 0)
    held_out = np.array(titled.passages.lines)[titled.is_held_out]
    assert titled.known_items
    for item in titled.known_items:
        assert any(item.text in line for line in held_out)


def test_parts_have_the_vector_of_their_passage_and_none_is_of_a_document_held_out(own):
    pairs = read_pairs(own, read_manifest(own, "index"), 0)
    mixture = pairs.mixture(None, Distillation(index="any"))
    passages, parts = mixture.sources
    assert passages.outputs is not None
    assert parts.outputs is not None
    assert parts.num_passages > passages.num_passages
    for text, vector in zip(parts.lines, parts.outputs, strict=True):
        place = int(np.argmax((passages.outputs == vector).all(axis=1)))
        assert text in passages.lines[place]
        assert not pairs.is_held_out[place]
    assert np.isin(passages.num_passages + np.arange(parts.num_passages), mixture.training).all()
    closed = pairs.mixture(None, Distillation(index="any", projection_only=True))
    assert closed.sources == (pairs.passages,)


@pytest.mark.check
def test_the_scores_of_passages_are_learnt_to_the_last_step(own, tmp_path):
    settings = Distillation(index=str(own), student=LOOKUP, epochs=40.0)
    outcome = distill(settings, tmp_path / "run", progress=Listener(), compare=False)
    first, *_, last = records(tmp_path / "run", "step")
    assert last["scores"] < 0.8 * first["scores"]
    assert outcome.best_step == last["step"]


@pytest.mark.parametrize("metric", ["inner_product", "l2"])
def test_vectors_of_any_length_teach_their_directions_unless_distances_need_the_lengths(
    metric, tmp_path
):
    random = np.random.default_rng(0)
    texts = [{"_id": f"{n}", "text": f"text number {n}"} for n in range(30)]
    vectors = random.normal(size=(30, 8)).astype(np.float32)
    vectors *= 7 / np.linalg.norm(vectors, axis=1, keepdims=True)
    alike, differing = tmp_path / "alike", tmp_path / "differing"
    for out, lengths in ((alike, np.ones((30, 1))), (differing, random.uniform(1, 2, (30, 1)))):
        adopt((vectors * lengths).astype(np.float32), out, texts=texts, metric=metric)
    outputs = read_pairs(alike, read_manifest(alike, "index"), 0).passages.outputs
    assert outputs is not None
    np.testing.assert_allclose(outputs, vectors / 7, atol=1e-6)
    of_differing = read_manifest(differing, "index")
    if metric == "l2":
        with pytest.raises(InvalidArgumentError, match="gives embeddings of length 1"):
            read_pairs(differing, of_differing, 0)
    else:
        outputs = read_pairs(differing, of_differing, 0).passages.outputs
        assert outputs is not None
        np.testing.assert_allclose(outputs, vectors / 7, atol=1e-6)


def test_an_index_that_cannot_teach_is_refused(tmp_path):
    few = tmp_path / "few"
    build([{"_id": "1", "text": "one"}], few, language=None)
    with pytest.raises(
        TrainingDataError, match=r"has 1 different .* add documents to the index, or"
    ):
        read_pairs(few, read_manifest(few, "index"), 0)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "there is nothing to imitate: name a teacher, an index or both"),
        ({"index": "i", "queries": ("log",)}, "queries need a teacher, which gives their vectors"),
        ({"index": "i", "corpora": ("c",)}, "the index's own texts: leave out corpora, or name a"),
        ({"index": "i", "layers": (0,)}, "leave out layers, or name a teacher"),
        ({"index": "i", "student": "lookup"}, "leave out a new look-up table, or name a teacher"),
        (
            {"index": "i", "projection_only": True, "minutes": 3.0, "epochs": 3.0},
            "projection_only trains nothing: leave out epochs and minutes",
        ),
        ({"teacher": "t", "pairs": True}, "pairs needs an index"),
        ({"teacher": "m:f", "queries": ("log",)}, "the teacher m:f has no layers to keep: name a"),
        ({"index": "i", "project": False, "projection_only": True}, "needs a projection"),
    ],
)
def test_what_cannot_be_learnt_is_refused(settings, expected):
    with pytest.raises(ValidationError, match=expected):
        Distillation(**settings)  # type: ignore[arg-type]


def test_what_is_not_measured_has_no_figure_and_unknown_tokens_are_a_reason(tmp_path):
    index = tmp_path / "index"
    random = np.random.default_rng(0)
    texts = ["".join(map(chr, random.integers(0x4E00, 0x9000, 20))) for _ in range(30)]
    rows = [{"_id": f"{n}", "text": text} for n, text in enumerate(texts)]
    vectors = random.normal(size=(30, 8)).astype(np.float32)
    adopt(vectors, index, texts=rows, language=None)
    settings = Distillation(index=str(index), student=LOOKUP, projection_only=True)
    verdict = distill(settings, tmp_path / "run", progress=Listener()).verdict
    assert verdict is not None
    assert verdict.known_items is None
    assert "known_items" not in load_manifest(tmp_path / "run", "model").details["verdict"]
    assert verdict.cannot_read
    sentence = sentence_of(verdict)
    assert "nDCG@10 is not measured (no sentence or title of two words" in sentence
    assert ("name a --student that reads their language" in sentence) != verdict.is_good
    assert ("train it without --projection-only" in sentence) != verdict.is_good
    assert "train it" not in sentence_of(replace(verdict, trained=0.1))


def test_a_verdict_goes_by_sentences_and_the_own_query_encoder_and_asks_for_queries():
    good = Verdict(passages=0.1, known_items=0.3, queries=0, own_known_items=0.4)
    assert good.is_good
    assert sentence_of(good).endswith("without --projection-only, mostly takes it further")
    assert "training" not in sentence_of(replace(good, trained=0.3))
    level = replace(good, own_known_items=0.31)
    assert "training" not in sentence_of(level) + sentence_of(replace(good, known_items=0.75))
    worse = sentence_of(replace(good, before=0.3, trained=0.29))
    assert "the training reached 0.290 at most, so the closed form is kept: --proj" in worse
    better = sentence_of(replace(good, before=0.29, trained=0.3))
    assert better.endswith("before the training the figure was 0.290")
    assert Verdict(passages=0.1, known_items=0.7, queries=0).is_good
    less = Verdict(passages=0.9, known_items=0.65, queries=0, own_known_items=0.99, overlap=0.5)
    assert "0.990 with the index's own query encoder" in sentence_of(less)
    assert "overlap@10 is 0.500, but 70% of that is expected" in sentence_of(less)
    assert Verdict(passages=0.9, known_items=None, queries=0).is_good
    bad = Verdict(passages=0.9, known_items=0.1, queries=0)
    assert not bad.is_good
    assert "0.100, but an nDCG@10 of 0.6 is expected" in sentence_of(bad)
    assert "do the texts belong" not in sentence_of(bad)
    strange = sentence_of(replace(bad, known_items=0.029))
    assert "do the texts belong to these vectors, in this order? If they do, train" in strange
    assert bad.wanted_queries == 1_000
    assert Verdict(passages=0.9, known_items=0.1, queries=1_000).wanted_queries == 10_000


def test_of_one_document_passages_are_held_out_and_control_characters_are_no_queries(tmp_path):
    texts = [f"{a}\x00 live in {p}. They sleep\x00 there." for a in ANIMALS for p in PLACES]
    rows = [{"id": f"{n}", "book": "one", "text": text} for n, text in enumerate(texts)]
    table = tmp_path / "table.jsonl"
    vectors = projected(texts).tolist()
    table.write_text(
        "\n".join(json.dumps({**r, "vector": v}) for r, v in zip(rows, vectors, strict=True))
    )
    book, apart = tmp_path / "book", tmp_path / "apart"
    adopt(table, book, document_field="book", language=None)
    adopt(table, apart, language=None)
    of_book, of_apart = (read_pairs(each, read_manifest(each), 0) for each in (book, apart))
    assert of_book.is_held_out.sum() == of_apart.is_held_out.sum() == 3
    assert not of_book.known_items
    assert of_apart.known_items
    assert not any("\x00" in each.text for each in of_apart.known_items)


def test_vectors_that_are_all_the_same_are_refused(tmp_path):
    texts = [f"{a} of the {p}" for a in ANIMALS for p in PLACES]
    documents = [Document(f"{n}", text) for n, text in enumerate(texts)]
    vectors = np.tile(projected(["the same"]), (len(texts), 1))
    adopt(vectors, tmp_path / "index", texts=documents, language=None)
    with pytest.raises(TrainingDataError, match="are all the same, so that there is nothing"):
        read_pairs(tmp_path / "index", read_manifest(tmp_path / "index"), 0)
