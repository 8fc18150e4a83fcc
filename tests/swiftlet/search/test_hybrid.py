"""Searches by words, and by words and meaning together, against their definitions."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tantivy

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.errors import CorruptIndexError, InvalidArgumentError
from swiftlet.index.building.build import BuildSettings, build_index
from swiftlet.index.documents.passages import PassageSplitter
from swiftlet.index.documents.store import DocumentStore
from swiftlet.index.documents.writer import write_documents
from swiftlet.index.lexical.analysis import LANGUAGES, PIECES, analysis_of
from swiftlet.index.lexical.index import LexicalIndex, empty_index
from swiftlet.index.lexical.writer import write_lexical_index
from swiftlet.index.parts.local_parts import BaseParts
from swiftlet.index.parts.search_parts import FixedIndex
from swiftlet.index.vectors.faiss_index import FaissIndex
from swiftlet.manifest import Manifest
from swiftlet.progress import Silence
from swiftlet.search.searcher import Searcher
from swiftlet.types import Document, Embeddings
from tests.polling import wait_until

DIM = 8
LOCK = ".tantivy-meta.lock"
WORDS = [f"w{n}" for n in range(300)]
MANIFEST = Manifest("index", dim=DIM, embedding_space="random", files={}, created_by="a test")
LexicalIndexOf = Callable[..., LexicalIndex]


def random_unit(seed: str) -> Embeddings:
    embedding = np.random.default_rng([*seed.encode()]).normal(size=DIM).astype(np.float32)
    return embedding / np.linalg.norm(embedding)


class RandomEncoder:
    """Gives every text a random embedding of its own."""

    dim = width = DIM
    max_tokens = 1
    embedding_space = "random"

    def tokenise(self, text: str) -> list[int]:
        return [*text.encode()]

    def embed(self, token_ids: Sequence[int]) -> Embeddings:
        return random_unit(bytes(token_ids).decode())

    def encode(self, texts: Sequence[str]) -> Embeddings:
        return np.stack([random_unit(text) for text in texts])


def bm25(texts: Sequence[str], query: str) -> list[float]:
    """BM25 of each text, divided by the weight of the query's words."""
    counts = [Counter(text.split()) for text in texts]
    mean_length = sum(map(Counter.total, counts)) / len(counts)
    scores, weight = [0.0] * len(texts), 0.0
    for word in query.split():
        found = sum(word in count for count in counts)
        idf = math.log(1 + (len(texts) - found + 0.5) / (found + 0.5))
        weight += idf
        for row, count in enumerate(counts):
            length = 1.2 * (0.25 + 0.75 * count.total() / mean_length)
            scores[row] += idf * 2.2 * count[word] / (count[word] + length)
    return [score / weight for score in scores]


@pytest.fixture
def lexical_index_of(tmp_path) -> LexicalIndexOf:
    def make(texts: Sequence[str], language: str = "none") -> LexicalIndex:
        write_lexical_index(tmp_path / "lexical", ((text, ()) for text in texts), language)
        return LexicalIndex.open(tmp_path / "lexical", language)

    return make


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Two thousand passages; as in a language, some words are much more common than others."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, len(WORDS) + 1)
    return [
        " ".join(random.choice(WORDS, size, p=shares / shares.sum()))
        for size in random.integers(5, 30, size=2000)
    ]


@pytest.fixture(scope="module")
def searcher(texts, shipped_encoder, tmp_path_factory) -> Searcher:
    """A searcher over those passages, four in each document, with random embeddings."""
    folder = tmp_path_factory.mktemp("hybrid")
    documents = []
    for number in range(0, len(texts), 4):
        parts = texts[number : number + 4]
        ends = np.cumsum([len(part) + 1 for part in parts]).tolist()
        sections = tuple(zip([0, *ends[:-1]], [end - 1 for end in ends], strict=True))
        documents.append(Document(f"{number:04}", " ".join(parts), sections=sections))
    splitter = PassageSplitter(shipped_encoder.tokenizer, 256, 0)
    stored = write_documents(folder / "documents.sqlite", documents, splitter, Silence())
    assert stored.num_passages == len(texts)
    index = FaissIndex.create("Flat", DIM)
    index.add(RandomEncoder().encode(texts))
    write_lexical_index(folder / "lexical", ((text, ()) for text in texts), "none")
    parts = BaseParts(
        encoder=RandomEncoder(),
        index=index,
        lexical=LexicalIndex.open(folder / "lexical", "none"),
        passage_to_document=stored.passage_to_document,
        store=DocumentStore(folder / "documents.sqlite"),
    )
    return Searcher(FixedIndex(parts, MANIFEST), MANIFEST)


@pytest.fixture(scope="module")
def scores(texts) -> dict[str, tuple[Embeddings, Embeddings]]:
    """The inner products and BM25 of all passages, by query."""
    embeddings = RandomEncoder().encode(texts)
    return {
        query: (embeddings @ random_unit(query), np.array(bm25(texts, query)))
        for query in ("w12 w30 w31", "w12 w250", "w299")
    }


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.72, 0.95, 1.0])
@pytest.mark.parametrize("top_k", [1, 60, 501])
def test_a_hybrid_search_finds_the_best_weighted_sums_of_all(searcher, scores, weight, top_k):
    for query, (dense, lexical) in scores.items():
        best = (weight * dense + (1 - weight) * lexical).reshape(-1, 4)
        expected = np.sort(best.max(axis=1))[::-1][:top_k]
        hits = searcher.search(query, top_k, mode="hybrid", weight=weight).hits
        assert [hit.score for hit in hits] == pytest.approx(expected.tolist(), abs=2e-6)
        for hit in hits:
            passages = best[int(hit.document_id) // 4]
            assert hit.passage.passage_id == f"{hit.document_id}#{passages.argmax()}"
            assert hit.score == pytest.approx(passages.max(), abs=2e-6)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_result_is_continued_without_repeats_and_gaps(searcher, mode, size):
    whole = searcher.search("w12 w250", 500, mode=mode).hits
    parts = [
        searcher.search("w12 w250", size, mode=mode, offset=offset).hits
        for offset in range(0, min(len(whole), 30 * size), size)
    ]
    assert [hit for part in parts for hit in part] == whole[: 30 * size]
    assert searcher.search("w12 w250", size, mode=mode, offset=500).hits == []


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_documents_below_the_least_score_are_left_out(searcher, mode):
    whole = searcher.search("w12 w250", 500, mode=mode).hits
    for least in (whole[0].score, whole[20].score, whole[-1].score, 5.0, -5.0):
        hits = searcher.search("w12 w250", 40, mode=mode, min_score=least, offset=3).hits
        assert hits == [hit for hit in whole if hit.score >= least][3:43]


def test_hybrid_is_the_default_with_the_weight_of_the_index(searcher):
    assert searcher.modes == ("hybrid", "dense", "lexical")
    default = searcher.search("w12 w30").hits
    assert default == searcher.search("w12 w30", mode="hybrid", weight=searcher.weight).hits
    assert default != searcher.search("w12 w30", weight=0.1).hits


def test_a_lexical_search_finds_the_documents_that_share_a_word(searcher, texts):
    scores = np.array(bm25(texts, "w250 nothing")).reshape(-1, 4).max(axis=1)
    hits = searcher.search("w250 nothing", 500, mode="lexical").hits
    assert {int(hit.document_id) // 4 for hit in hits} == set(np.flatnonzero(scores).tolist())
    assert [hit.score for hit in hits] == pytest.approx(np.sort(scores)[::-1][: len(hits)].tolist())
    assert searcher.search("nothing", mode="lexical").hits == []


def test_without_a_common_word_a_hybrid_search_finds_the_same_as_a_dense_one(searcher):
    def found(mode: str) -> list[str]:
        return [hit.document_id for hit in searcher.search("? 光", 20, mode=mode).hits]

    assert found("hybrid") == found("dense")


def test_reciprocal_rank_fusion_prefers_what_both_find(searcher, texts):
    query = texts[123]
    best = searcher.search(query, 5, fusion="rrf").hits
    assert best[0].document_id == "0120"  # both find its own passage first
    assert best[0].score == pytest.approx(2 / 61)
    assert [hit.score for hit in best] == sorted((hit.score for hit in best), reverse=True)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_the_words_of_the_query_are_marked(searcher, mode):
    for hit in searcher.search("w250 nothing w12", 20, mode=mode, highlight="words").hits:
        marked = [hit.passage.text[start:end] for start, end in hit.highlights]
        assert marked == [word for word in hit.passage.text.split() if word in {"w250", "w12"}]


def test_marks_count_characters(lexical_index_of):
    text = " — Ünï: “the volcanoes érupt” 光 get_nowait() 𝄞 volcano\n"
    query = lexical_index_of([text, "tea", "snow"], "english").parse("Volcano nowait ERUPTS other")
    marked = [text[start:end] for start, end in query.highlights(text)]
    assert marked == ["volcanoes", "érupt", "nowait", "volcano"]
    assert query.highlights("") == query.highlights("tea") == ()


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_the_sentence_nearest_in_meaning_is_marked(tmp_path, mode):
    text = "Tea is a drink. Volcanoes throw out molten rock! Is snow cold?\n\nThe end"
    build_index([Document("all", text)], DEFAULT_ENCODER, tmp_path / "index")
    with Searcher.open(tmp_path / "index", DEFAULT_ENCODER) as opened:
        for query, answer in (
            ("lava comes from volcanoes", "Volcanoes throw out molten rock!"),
            ("is winter snow chilly", "Is snow cold?"),
            ("the end of it", "The end"),
        ):
            (hit,) = opened.search(query, mode=mode, highlight="sentence").hits
            assert [hit.passage.text[start:end] for start, end in hit.highlights] == [answer]


def test_the_first_128_sentences_of_a_whole_document_are_compared(tmp_path):
    text = "No. " * 127 + "Volcanoes throw out molten rock. Lava comes from volcanoes."
    index = tmp_path / "index"
    build_index([Document("all", text)], DEFAULT_ENCODER, index, BuildSettings(truncate=True))
    with Searcher.open(index, DEFAULT_ENCODER) as opened:
        (hit,) = opened.search("lava comes from volcanoes", highlight="sentence").hits
    ((start, end),) = hit.highlights
    assert hit.passage.text[start:end] == "Volcanoes throw out molten rock."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "both"}, "mode is 'both', but one of hybrid, dense, lexical is expected"),
        ({"weight": 1.01}, "weight is 1.01, but a number from 0 to 1 is expected"),
        ({"weight": math.nan}, "weight is nan, but"),
        ({"highlight": ""}, "highlight is '', but one of words, sentence is expected"),
        ({"highlight": "all"}, "highlight is 'all', but one of words, sentence is expected"),
        ({"highlight": "words", "include_text": False}, "passages without their text have nothing"),
        ({"offset": -1}, "offset is -1, but at least 0 is expected"),
        ({"fusion": "rrf", "offset": 10}, "fusion is 'rrf', which takes no offset"),
        ({"min_score": "0.5"}, "min_score is '0.5', but a number is expected"),
        ({"weight": True}, "weight is True, but"),
        ({"fusion": "sum", "weight": 0.5}, "fusion is 'sum', but one of weighted, rrf is expected"),
        ({"fusion": "sum"}, "fusion is 'sum', but one of weighted, rrf is expected"),
        ({"fusion": "rrf", "weight": 0.5}, "fusion is 'rrf', which takes no weight"),
        ({"mode": "dense", "weight": 0.5}, 'mode is "dense", but a weight is for "hybrid"'),
        ({"mode": "lexical", "weight": 0.5}, 'mode is "lexical", but a weight is for "hybrid"'),
        ({"group_size": 5}, "group_size is 5, but nothing is grouped: give group_by, too"),
    ],
)
def test_an_argument_out_of_its_range_is_refused(searcher, arguments, message):
    with pytest.raises(InvalidArgumentError) as refused:
        searcher.search("w1", **arguments)
    assert message in str(refused.value)


def test_an_index_without_words_is_searched_by_meaning_alone(tmp_path):
    out = tmp_path / "index"
    documents = [Document("tea", "A hot drink."), Document("ski", "Two boards on snow.")]
    build_index(documents, DEFAULT_ENCODER, out, BuildSettings(language=None))
    assert not (out / "lexical").exists()
    with Searcher.open(out, DEFAULT_ENCODER) as searcher:
        assert searcher.modes == ("dense",)
        assert searcher.search("tea").hits == searcher.search("tea", mode="dense").hits
        with pytest.raises(InvalidArgumentError, match="the index has no words"):
            searcher.search("tea", mode="lexical")
        with pytest.raises(InvalidArgumentError, match="the index has no words"):
            searcher.search("tea", highlight="words")


def test_an_unknown_language_is_refused_before_the_corpus_is_read(tmp_path):
    with pytest.raises(
        InvalidArgumentError, match="language is 'latin', but one of auto, arabic, "
    ):
        build_index(iter(int, 1), DEFAULT_ENCODER, tmp_path, BuildSettings(language="latin"))


@pytest.mark.parametrize("language", sorted({*LANGUAGES} - {*PIECES}))
def test_every_language_finds_its_words(lexical_index_of, language):
    index = lexical_index_of(["Ärger in São Tomé 42", "naïve ёлка", "something else"], language)
    for query, row in (("ärger", 0), ("SÃO", 0), ("42", 0), ("naïve", 1), ("Ёлка", 1)):
        assert index.parse(query).search(3)[1].tolist() == [row]


@pytest.mark.parametrize(
    ("language", "query", "found"),
    [
        ("english", "volcano eruption", True),
        ("german", "Vulkane", True),
        ("none", "volcanos", False),
        ("none", "volcano", True),
    ],
)
def test_a_language_gives_words_their_stems(lexical_index_of, language, query, found):
    index = lexical_index_of(["The volcano erupted. Der Vulkan", "Tea", "Snow"], language)
    assert index.parse(query, exact=True).search(3)[1].tolist() == ([0] if found else [])


@pytest.mark.parametrize(
    "query",
    ["get_nowait", "asyncio.Queue.get_nowait()", "GET_NOWAIT", "nowait", "0x80070005", "err-4711"],
)
def test_identifiers_numbers_and_error_codes_are_found(lexical_index_of, query):
    index = lexical_index_of(
        ["Call queue.get_nowait() first: ERR-4711, 0x80070005.", "The queue", "Wait a while"]
    )
    assert index.parse(query).search(1)[1].tolist() == [0]


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("queue.get_nowait", 0),
        ("Queue.get_nowait()", 0),
        ("asyncio.Queue.get_nowait", 0),
        ("GET_NOWAIT", 0),
        ("getnowait", 0),
        ("get nowait", 1),
        ("nowait.get", 1),
        ("self.get_nowait", 0),
    ],
)
def test_a_name_is_also_a_word_without_its_dots_and_underscores(lexical_index_of, query, row):
    index = lexical_index_of(["asyncio.queue.get_nowait()", "nowait get queue asyncio", "other"])
    assert index.parse(query).search(2)[1][0] == row


def test_a_name_in_no_passage_leaves_the_scores_as_they_are(lexical_index_of):
    index = lexical_index_of(["get a queue", "put", "a queue"])
    scores, rows = index.parse("queue.get_it").search(3)
    expected, same = index.parse("queue get it").search(3)
    assert scores.tolist() == expected.tolist()
    assert rows.tolist() == same.tolist()


@pytest.mark.parametrize(
    "text", ["a." * 200_000, "a_" * 200_000, "a" + "_" * 200_000, "a" * 200_000]
)
def test_joined_names_take_time_in_proportion_to_the_text(lexical_index_of, text):
    index = lexical_index_of([f"{text} b", "c"])
    assert index.parse(f"{text} b").search(2)[1].tolist() == [0]


@pytest.mark.parametrize(
    "query", ['"', "a AND", "title:x", "(((", "* ? ~2 ^3", "-a +b", "\\", "a\0b", "[1 TO 2]"]
)
def test_no_character_of_a_query_has_a_meaning(lexical_index_of, query):
    index = lexical_index_of(["a b and title x 1 to 2 3", "c", "d"])
    found = index.parse(query).search(3)[1].tolist()
    assert found == ([0] if any(each.isalnum() for each in query) else [])


def test_common_words_are_searched_only_if_there_are_no_others(lexical_index_of):
    index = lexical_index_of(["the who", "the band", *["the end"] * 1000, *["an end"] * 200])
    assert set(index.parse("the").search(1500)[1].tolist()) == set(range(1002))
    assert set(index.parse("the unknown").search(1500)[1].tolist()) == set(range(1002))
    assert index.parse("the who").search(1500)[1].tolist() == [0]


def test_of_a_long_query_the_rarest_words_are_searched(lexical_index_of):
    words = [f"word{n}" for n in range(200)]
    index = lexical_index_of([" ".join(words[n:]) for n in range(200)])
    # The word n is in n + 1 passages.
    assert set(index.parse(" ".join(words)).search(200)[1].tolist()) == set(range(64))


def test_a_folder_that_cannot_be_written_is_opened(lexical_index_of, tmp_path):
    lexical_index_of(["tea", "snow"])
    before = sorted((tmp_path / "lexical").iterdir())
    assert all(file.stat().st_mode & 0o444 == 0o444 for file in before)
    LexicalIndex.open(tmp_path / "lexical", "none")
    assert sorted((tmp_path / "lexical").iterdir()) == before


def test_a_lock_that_an_earlier_version_left_in_a_folder_is_not_taken(lexical_index_of, tmp_path):
    lexical_index_of(["tea", "snow"])
    (tmp_path / "lexical" / LOCK).mkdir()  # cannot be locked
    index = LexicalIndex.open(tmp_path / "lexical", "none")
    assert index.parse("snow").search(1)[1].tolist() == [1]


def test_no_thread_leaves_a_lock_in_a_folder_that_is_written(tmp_path):
    ours, watched = tmp_path / "ours", tmp_path / "watched"
    ours.mkdir()
    watched.mkdir()
    both = {
        ours: empty_index(analysis_of("none"), ours),
        watched: tantivy.Index(tantivy.SchemaBuilder().build(), str(watched)),
    }
    # A thread that watches has looked again once a second change has been seen.
    for _ in range(2):
        for folder, index in both.items():
            writer = index.writer(15_000_000, 1)
            writer.add_document(tantivy.Document())
            writer.commit()
            writer.wait_merging_threads()
            (folder / LOCK).unlink()  # the writer's
        wait_until((watched / LOCK).is_file)
        assert not (ours / LOCK).exists()


def test_a_folder_without_an_index_is_refused(tmp_path):
    with pytest.raises(CorruptIndexError, match="is no lexical index"):
        LexicalIndex.open(tmp_path, "none")
