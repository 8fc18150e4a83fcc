import hashlib
import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from blake3 import blake3

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import CorruptArtefactError, ManifestError
from swiftlet.index.columns.columns import COLUMN_FILES
from swiftlet.index.lexical.postings import FILES
from swiftlet.manifest import (
    FILE_NAME,
    FORMAT_VERSION,
    FileEntry,
    Manifest,
    describe_files,
    load_manifest,
    read_manifest,
    verify_files,
    write_manifest,
)
from swiftlet.search.searcher import Searcher


@pytest.fixture
def artefact(tmp_path) -> Path:
    directory = tmp_path / "artefact"
    directory.mkdir()
    (directory / "a.bin").write_bytes(bytes(range(256)))
    (directory / "empty").write_bytes(b"")
    manifest = Manifest(
        kind="model",
        dim=3,
        embedding_space="ab" * 32,
        files=describe_files(directory, ["empty", "a.bin"]),
        created_by="swiftlet 0 — ü",
        details={"recall": {"recall@10": 0.9931}, "factory": "IVF8,Flat", "truncate": False},
    )
    write_manifest(directory, manifest)
    return directory


def rewrite(directory: Path, **fields: object) -> None:
    """Sign the manifest again, as an attacker could."""
    content = {**json.loads((directory / FILE_NAME).read_text()), **fields}
    content = {name: value for name, value in content.items() if value is not ...}
    del content["checksum"]
    compact = json.dumps(content, sort_keys=True, separators=(",", ":"))
    content["checksum"] = hashlib.sha256(compact.encode()).hexdigest()
    (directory / FILE_NAME).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def test_a_manifest_is_read_as_it_was_written(artefact):
    manifest = load_manifest(artefact, "model")
    assert manifest.details["recall"] == {"recall@10": 0.9931}
    content = bytes(range(256))
    assert manifest.files["a.bin"] == FileEntry("blake3", blake3(content).hexdigest(), 256)
    assert list(manifest.files) == ["a.bin", "empty"]
    before = (artefact / FILE_NAME).read_bytes()
    write_manifest(artefact, manifest)
    assert (artefact / FILE_NAME).read_bytes() == before
    rewrite(artefact)
    assert (artefact / FILE_NAME).read_bytes() == before


def test_the_hashes_of_earlier_formats_are_verified(artefact):
    content = bytes(range(256))
    entry = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
    rewrite(artefact, files={"a.bin": entry}, format_version=1)
    manifest = load_manifest(artefact, "model")
    assert manifest.files["a.bin"].fields() == entry
    (artefact / "a.bin").write_bytes(content[::-1])
    with pytest.raises(CorruptArtefactError, match=r"a\.bin has been altered"):
        load_manifest(artefact, "model")


def test_the_fingerprint_changes_with_every_field_of_a_manifest(artefact):
    manifest = read_manifest(artefact)
    others = [
        replace(manifest, dim=4),
        replace(manifest, embedding_space="cd" * 32),
        replace(manifest, files={}),
        replace(manifest, created_by=""),
        replace(manifest, details={}),
    ]
    assert manifest.fingerprint == read_manifest(artefact).fingerprint
    assert len({each.fingerprint for each in (manifest, *others)}) == 6


def test_an_altered_bit_in_any_byte_of_a_manifest_is_noticed(artefact):
    path = artefact / FILE_NAME
    content = path.read_bytes()
    for position in range(len(content)):
        altered = bytearray(content)
        altered[position] ^= 1 << (position % 8)
        path.write_bytes(altered)
        with pytest.raises(ManifestError, match=r"manifest\.json"):
            read_manifest(artefact)


def test_every_manifest_that_is_truncated_or_extended_is_refused(artefact):
    path = artefact / FILE_NAME
    content = path.read_bytes()
    for altered in [*(content[:size] for size in range(len(content))), content + b"\n"]:
        path.write_bytes(altered)
        with pytest.raises(ManifestError, match=r"manifest\.json"):
            read_manifest(artefact)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"format_version": FORMAT_VERSION + 1}, "format_version 4, .* up to 3: upgrade Swiftlet$"),
        ({"format_version": ...}, "has no format_version$"),
        ({"format_version": "1"}, "has no format_version$"),
        ({"dim": ...}, "does not have the fields of a manifest: .*dim"),
        ({"colour": "red"}, "does not have the fields of a manifest: .*colour"),
        ({"files": ["a.bin"]}, "does not have the fields of a manifest"),
        ({"files": {"a.bin": {"sha256": ""}}}, "is not the hash and the size of a file$"),
    ],
)
def test_a_manifest_of_another_form_is_refused_even_if_signed(artefact, fields, problem):
    rewrite(artefact, **fields)
    with pytest.raises(ManifestError, match=rf"manifest\.json .*{problem}"):
        read_manifest(artefact)


def test_a_newer_format_is_recognised_however_it_is_signed(artefact):
    (artefact / FILE_NAME).write_text('{"format_version": 7, "signature": "unheard of"}')
    with pytest.raises(ManifestError, match=r"has format_version 7, .*: upgrade Swiftlet$"):
        read_manifest(artefact)


@pytest.mark.parametrize("content", [b"", b"null", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_value_that_is_no_json_object_is_refused(artefact, content):
    (artefact / FILE_NAME).write_bytes(content)
    with pytest.raises(
        ManifestError, match=r"manifest\.json (is not valid JSON|has no format_ver)"
    ):
        read_manifest(artefact)


@pytest.mark.parametrize(
    "name",
    ["../a.bin", "/etc/passwd", "a/../b", "a//b", "a/./b", "..", ".", "", "a/", "./a.bin", "a\0b"],
)
def test_a_manifest_names_no_file_outside_its_directory(artefact, name):
    entry = FileEntry("blake3", blake3(b"").hexdigest(), 0)
    write_manifest(artefact, replace(read_manifest(artefact), files={name: entry}))
    with pytest.raises(ManifestError, match=r"which is no file of its directory$") as caught:
        read_manifest(artefact)
    assert repr(name) in str(caught.value)


def test_a_folder_that_is_no_artefact_or_of_another_kind_is_named(artefact, tmp_path):
    with pytest.raises(
        ManifestError, match=r"artefact is of kind 'model', but 'encoder' is needed$"
    ):
        load_manifest(artefact, "encoder")
    (artefact / FILE_NAME).unlink()
    with pytest.raises(ManifestError, match=r"artefact has no manifest\.json: it is no artefact$"):
        read_manifest(artefact)
    (artefact / FILE_NAME).mkdir()
    with pytest.raises(ManifestError, match=r"manifest\.json is no regular file$"):
        read_manifest(artefact)
    for path in (artefact / "a.bin", tmp_path / "nothing"):
        with pytest.raises(ManifestError, match=r"is not a directory$"):
            read_manifest(path)
    with pytest.raises(ManifestError, match="; swiftlet export intfloat/e5-small --out ENCODER"):
        read_manifest(Path("intfloat/e5-small"), "encoder")


def test_a_file_that_is_missing_or_unreadable_or_of_another_size_is_named(artefact):
    path = artefact / "a.bin"
    manifest = read_manifest(artefact)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(CorruptArtefactError, match=r"a\.bin has 257 bytes, .* lists 256: restore"):
        verify_files(artefact, manifest)
    path.unlink()
    with pytest.raises(CorruptArtefactError, match=r"a\.bin is missing: restore"):
        verify_files(artefact, manifest)
    path.mkdir()
    directory_entry = replace(manifest.files["a.bin"], size_bytes=path.stat().st_size)
    with pytest.raises(CorruptArtefactError, match=r"a\.bin is no regular file$"):
        verify_files(artefact, replace(manifest, files={"a.bin": directory_entry}))


SEGMENT = "lexical/00000000000000000000000000000000"
LEXICAL_FILES = [
    *(f"{SEGMENT}.{part}" for part in ("fast", "fieldnorm", "idx", "pos", "store", "term")),
    *(f"lexical/{name}" for name in FILES),
]
INDEX_FILES = [
    "documents.sqlite", "index.faiss", "passage_to_document.npy", "lexical/meta.json",
    *LEXICAL_FILES, *(f"columns/{name}" for name in COLUMN_FILES),
]  # fmt: skip
ENCODER_FILES = ["canonical.json", "model_int8.onnx", "tokenizer.json"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("index", name) for name in INDEX_FILES),
        *(("encoder", name) for name in ENCODER_FILES),
    ],
)
def test_a_flipped_bit_in_any_file_of_an_artefact_is_noticed_by_name(
    small_index, tmp_path, kind, name
):
    source = small_index if kind == "index" else DEFAULT_ENCODER
    files = INDEX_FILES if kind == "index" else ENCODER_FILES
    assert set(files) <= set(read_manifest(source).files) <= {*files, "model.onnx"}
    directory = tmp_path / kind
    directory.mkdir()
    (directory / name).parent.mkdir(exist_ok=True)
    for path in source.rglob("*"):
        place = directory / path.relative_to(source)
        if place == directory / name:
            shutil.copyfile(path, place)
        elif path.is_file():
            place.parent.mkdir(exist_ok=True)
            place.symlink_to(path)
    size_bytes = (directory / name).stat().st_size
    for position in (0, random.Random(name).randrange(size_bytes), size_bytes - 1):
        flip(directory / name, position)
        with pytest.raises(CorruptArtefactError, match=rf"{kind}/{name} has been altered"):
            load_manifest(directory, kind)
        if position == 0:
            parts = (directory, DEFAULT_ENCODER) if kind == "index" else (small_index, directory)
            with pytest.raises(CorruptArtefactError, match=rf"{kind}/{name} has been altered"):
                Searcher.open(*parts)
        flip(directory / name, position)
    load_manifest(directory, kind)


@pytest.mark.parametrize("name", ["index.faiss", f"{SEGMENT}.term", "documents.sqlite"])
def test_a_flipped_bit_in_an_open_index_is_found_by_name_until_it_is_gone(
    small_index, tmp_path, name
):
    directory = Path(shutil.copytree(small_index, tmp_path / "index"))
    with Searcher.open(directory, DEFAULT_ENCODER) as searcher:
        searcher._source.seconds_between_looks = 0
        before = searcher.search("water").hits
        looks = range(4 * len(searcher.index_manifest.files))
        assert not any(searcher.refresh() for _ in looks)
        flip(directory / name, 40)
        with pytest.raises(CorruptArtefactError, match=f"{Path(name).name} has been altered"):
            any(searcher.refresh() for _ in looks)
        assert name in searcher.problem  # a service answers no search then
        with pytest.raises(CorruptArtefactError, match=f"{Path(name).name} has been altered"):
            searcher.refresh()
        flip(directory / name, 40)
        assert searcher.refresh()
        assert not searcher.problem
        assert [hit.document_id for hit in searcher.search("water").hits] == [
            hit.document_id for hit in before
        ]


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 16]))


@pytest.mark.parametrize("fields", [{"metric": "l2"}, {"normalised": False}])
def test_a_model_has_inner_products_of_normalised_embeddings(tmp_path, fields):
    write_manifest(tmp_path, Manifest("model", 3, "space", {}, "a test", **fields))
    with pytest.raises(ManifestError, match="only 'inner_product' of normalised"):
        read_manifest(tmp_path)


def test_a_metric_that_no_index_has_is_refused(tmp_path):
    write_manifest(tmp_path, Manifest("model", 3, "space", {}, "a test", metric="hamming"))
    with pytest.raises(ManifestError, match="metric 'hamming', but inner_product or l2 is"):
        read_manifest(tmp_path)


def test_a_manifest_of_too_many_bytes_is_not_read(tmp_path):
    (tmp_path / FILE_NAME).touch()
    os.truncate(tmp_path / FILE_NAME, (1 << 24) + 1)
    with pytest.raises(ManifestError, match="16,777,217 bytes, but a manifest has at most"):
        read_manifest(tmp_path)
