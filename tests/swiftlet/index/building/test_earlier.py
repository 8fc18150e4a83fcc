"""A build in the place of an index takes the embeddings of passages that are as before."""

from pathlib import Path

import pytest

import swiftlet
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.progress import Silence

TEXTS = {f"{number:02}": f"Text number {number} about bees." for number in range(60)}


class Notes(Silence):
    """Keeps the notes, and how many embeddings were there before."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def build(out: Path, texts: dict[str, str], **options) -> list[str]:
    """Build an index over an earlier one; the notes."""
    progress = Notes()
    documents = [{"_id": name, "text": text} for name, text in texts.items()]
    options = {"encoder": LOOKUP_QUERY_ENCODER, **options}
    swiftlet.build(documents, out, overwrite=True, progress=progress, **options)
    return progress.notes


@pytest.fixture
def out(tmp_path) -> Path:
    assert build(tmp_path / "index", TEXTS) == []
    return tmp_path / "index"


def same(out: Path, fresh: Path) -> None:
    with swiftlet.open(out) as one, swiftlet.open(fresh) as other:
        for query in ("number 7", "a sweet thing", "wasps"):
            found, expected = (each.search(query, 70) for each in (one, other))
            assert [hit.document_id for hit in found] == [hit.document_id for hit in expected]
            scores = [hit.score for hit in expected]
            assert [hit.score for hit in found] == pytest.approx(scores, abs=1e-6)


def test_only_what_is_new_is_encoded(out, tmp_path):
    with swiftlet.write(out) as writer:
        writer.put([{"_id": "99", "text": "A new text about wasps."}])
        writer.delete(["07"])
    texts = {**TEXTS, "99": "A new text about wasps.", "05": "Changed.", "98": TEXTS["03"]}
    # All but the changed text and the deleted one; a text may come twice.
    notes = build(out, texts, factory="Flat")
    assert notes == ["60 of 62 passages are as before: their embeddings are kept"]
    build(tmp_path / "fresh", texts, factory="Flat")
    same(out, tmp_path / "fresh")


def test_another_encoder_or_a_damaged_index_gives_nothing(out):
    assert build(out, TEXTS, encoder=DEFAULT_QUERY_ENCODER) == []
    assert build(out, TEXTS) == []
    (out / "documents.sqlite").write_bytes(b"damaged")
    assert build(out, TEXTS) == []
    assert len(build(out, TEXTS)) == 1


def test_an_index_without_documents_gives_nothing(out):
    with swiftlet.write(out) as writer:
        writer.delete([*TEXTS])
    assert build(out, TEXTS) == []
