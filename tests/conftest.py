"""Shared fixtures: real collections, the encoder that ships, and a small index made with it."""

import os
import shutil
from collections.abc import Iterator
from copy import copy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import OnnxEncoder
from swiftlet.encoders.tokenizer import _MOST_WORDS, Tokenizer
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The same examples in every run; `make explore` tries new ones, and each failure becomes an
# `@example` of its test.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None)
settings.load_profile("fixed")

# Tests report to nobody.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

TOPICS = {
    "volcano": "Molten rock rises through the crust and erupts as lava and ash.",
    "bread": "Flour, water, salt and yeast are kneaded, left to rise and baked in an oven.",
    "chess": "Two players move pieces on a board of 64 squares until a king is mated.",
    "photosynthesis": "Plants turn light, water and carbon dioxide into sugar and oxygen.",
    "violin": "A bow is drawn across four strings, whose sound the wooden body carries.",
    "tides": "The gravity of the moon and the sun raises and lowers the sea twice a day.",
    "vaccine": "A weakened germ teaches the immune system to recognise the real disease.",
    "bicycle": "Pedals drive the rear wheel through a chain while the rider keeps balance.",
    "glacier": "Snow packed over centuries becomes ice that flows slowly down a valley.",
    "printing": "Movable type made books cheap, and ideas spread through Europe quickly.",
    "bees": "Worker bees gather nectar, dance to show where flowers are, and make honey.",
    "compiler": "Source code is parsed, optimised and translated into machine instructions.",
}


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real collections; a missing one fails the run where CI is set."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SWIFTLET_DATA", default))
    if not folder.is_dir():
        message = f"real collections are needed in {folder}; set SWIFTLET_DATA to where they are"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder


@pytest.fixture(autouse=True, scope="session")
def _encoders_are_read_once() -> Iterator[None]:
    """Those that ship are read and verified once: it takes most of the time of a small index."""
    read_encoder = cache(OnnxEncoder.load.__func__)
    read_tokenizer = cache(whole := Tokenizer.load)

    def load_encoder(cls: type[OnnxEncoder], directory: Path, **options: object) -> OnnxEncoder:
        is_shipped = (real := directory.resolve()).parent == DEFAULT_ENCODER.parent
        role = options.pop("role", None)
        read = read_encoder if is_shipped else read_encoder.__wrapped__
        found = copy(read(cls, real if is_shipped else directory, **options))
        found.tokenizer = fresh(found.tokenizer)
        return found if role is None else found.reading(role)

    def load_tokenizer(path: Path) -> Tokenizer:
        is_shipped = (real := path.resolve()).parent.parent == DEFAULT_ENCODER.parent
        return fresh(read_tokenizer(real)) if is_shipped else whole(path)

    def fresh(tokenizer: Tokenizer) -> Tokenizer:
        """The tokenizer as if it had read nothing yet."""
        found = copy(tokenizer)
        found.most_words, found._ids_of_words, found._words_of = _MOST_WORDS, {}, {}
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxEncoder, "load", classmethod(load_encoder))
        patch.setattr(Tokenizer, "load", load_tokenizer)
        yield


@pytest.fixture(scope="session")
def shipped_encoder() -> OnnxEncoder:
    """The encoder that ships."""
    return OnnxEncoder.load(DEFAULT_ENCODER)


@pytest.fixture(scope="session")
def small_documents() -> list[Document]:
    """Sixty documents: twelve topics, each in five documents of different lengths."""
    return [
        Document(
            document_id=f"{topic}-{length}",
            title=f"{topic.capitalize()} {length}",
            text=" ".join([text] * length),
            metadata={"topic": topic, "length": length},
        )
        for topic, text in TOPICS.items()
        for length in (1, 2, 3, 8, 20)
    ]


@pytest.fixture(scope="session")
def small_index(small_documents, tmp_path_factory) -> Path:
    """An index directory of the small documents, with both fields as facets; read only."""
    out = tmp_path_factory.mktemp("small") / "index"
    settings = BuildSettings(facets=("topic", "length"))
    build_index(small_documents, DEFAULT_ENCODER, out, settings)
    return out


@pytest.fixture(scope="session")
def small_searcher(small_index) -> Iterator[Searcher]:
    """A searcher over the small documents."""
    searcher = Searcher.open(small_index, DEFAULT_ENCODER)
    yield searcher
    searcher.close()


@pytest.fixture(scope="session")
def reranker_directory() -> Path:
    """A tiny re-ranker with random weights; read only."""
    return Path(__file__).parent / "artefacts" / "reranker"


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium; a missing one fails the run where CI is set."""
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium")
    if executable is None:
        message = "pages are tested in Chromium; on Debian: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        yield browser
        browser.close()
