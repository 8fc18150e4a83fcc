import random
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.documents.passages import (
    LONGEST_TITLE,
    PassageSplitter,
    blocks_of_code,
    encoder_text,
)
from swiftlet.types import Document, Passage, Section
from tests.growth import grows_evenly

# What a block of code is. This expression takes a time that grows with the square of the text.
CODE = re.compile(r"^ {0,3}(```+|~~~++)[^`\n]*\n.*?^ {0,3}\1[`~]*[ \t]*$", re.DOTALL | re.MULTILINE)
LINES = st.sampled_from(["```", "````", "~~~", "~~~~~", " ```a", "```a`", "~~~ ", "```~", "x", ""])

WORDS = {
    "english": "the of retrieval photosynthesis isn't well-known e.g. Mitochondria unbelievably",
    "greek": "και το ο φωτοσύνθεση Αθήνα είναι",
    "russian": "и в фотосинтез приём ещё Москва",
    "hindi": "में है कि वाक्य हिन्दी प्रकाश",
    "arabic": "في من نَصٌّ الضوئي التمثيل",
    "chinese": "光合作用 的 是 植物，利用 光能。",
    "emoji": "👩‍👩‍👧 ☀️ 🇩🇪 ok e\u0301",
    "code": "x=f(a[0]) https://example.org/?q=1 snake_case_name 0x7fff",
}
TEXTS = st.builds(
    lambda words, seed, count: " ".join(random.Random(seed).choices(words.split(), k=count)),
    st.sampled_from([*WORDS.values(), " ".join(WORDS.values())]),
    st.integers(0, 9),
    st.integers(0, 400),
)
TITLES = st.sampled_from(["", "A title", "Φωτοσύνθεση — में है", "long title " * 10])
DOCUMENTS = st.builds(
    lambda texts, title: Document(
        "d",
        "\n\n".join(texts),
        title,
        sections=tuple(
            (
                sum(len(before) + 2 for before in texts[:n]),
                sum(len(t) + 2 for t in texts[: n + 1]) - 2,
            )
            for n in range(len(texts))
        ),
    ),
    st.lists(TEXTS, min_size=1, max_size=4),
    TITLES,
)


@pytest.fixture(scope="module")
def tokenizer(shipped_encoder) -> Tokenizer:
    return shipped_encoder.tokenizer


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS, st.integers(40, 256), st.integers(0, 20))
def test_passages_are_exact_spans_that_contain_every_word_unbroken(
    tokenizer, document, max_tokens, overlap_tokens
):
    passages = list(PassageSplitter(tokenizer, max_tokens, overlap_tokens).split(document))
    budget = max_tokens - tokenizer.num_special_tokens
    longest_read = budget + max(0, tokenizer.count(document.title) - budget // 2)
    assert [passage.passage_id for passage in passages] == [f"d#{n}" for n in range(len(passages))]
    assert {passage.document_id for passage in passages} == {"d"}
    for passage in passages:
        assert document.text[passage.start : passage.end] == passage.text
        assert passage.text == passage.text.strip()
        assert tokenizer.count(encoder_text(document.title, passage.text)) <= longest_read
        sections = [span for span in document.sections if span[0] <= passage.start < span[1]]
        assert all(passage.end <= end for _, end, _ in sections)
        assert sections or (passage.start, passage.end) == (0, 0)
    for earlier, later in pairwise(passages):
        assert earlier.start < later.start
        assert earlier.end < later.end
    covered = np.zeros(len(document.text), dtype=bool)
    for passage in passages:
        covered[passage.start : passage.end] = True
    assert not "".join(np.array(list(document.text), dtype="U1")[~covered]).strip()


@pytest.mark.parametrize("overlap", [0, 8, 16, 32])
@pytest.mark.parametrize("max_tokens", [64, 128, 256])
def test_passages_of_a_section_are_as_few_and_as_long_as_each_other(tokenizer, max_tokens, overlap):
    words = (" ".join(WORDS.values())).split()
    longest_word = max(map(tokenizer.count, words))
    budget = max_tokens - tokenizer.num_special_tokens
    splitter = PassageSplitter(tokenizer, max_tokens, overlap)
    for seed, count in enumerate((20, 40, 60, 100, 150, 200, 300, 1000, 3000)):
        text = " ".join(random.Random(seed).choices(words, k=count))
        passages = list(splitter.split(Document("d", text)))
        lengths = [tokenizer.count(passage.text) for passage in passages]
        total = tokenizer.count(text)
        fewest = 1 if total <= budget else -(-(total - overlap) // (budget - overlap))
        # If whole words do not fill every passage, more passages are needed.
        assert fewest <= len(passages) <= 1 + 1.1 * fewest
        if len(passages) == fewest:
            assert max(lengths) - min(lengths) <= 2 * longest_word
        for earlier, later in pairwise(passages):
            shared = tokenizer.count(text[later.start : max(later.start, earlier.end)])
            assert abs(shared - overlap) <= longest_word / 2


@pytest.mark.parametrize("fence", ["```", "~~~~", "  ```"])
def test_a_block_of_code_stays_whole_where_a_passage_can_hold_it(tokenizer, fence):
    code = f"{fence}python\n" + "\n\n".join(f"value_{n} = f({n})" for n in range(8)) + f"\n{fence}"
    blocks = ["Some words before it. " * n + "\n" + code + "\n" for n in range(12)]
    text = "\n".join(blocks)
    passages = list(PassageSplitter(tokenizer, 128, 16).split(Document("d", text)))
    assert sum(passage.text.count(code.strip()) for passage in passages) >= len(blocks)
    assert all(passage.text.count(fence.strip()) % 2 == 0 for passage in passages)
    assert max(tokenizer.count(passage.text) for passage in passages) <= 126
    # A passage can hold neither this one nor the rest of a text after a fence that is not closed.
    long = f"{fence}\n" + "x = f(a)\n" * 100 + f"{fence}\n"
    for text in (long, f"{fence}\n" + code.replace(fence, "") * 10):
        passages = list(PassageSplitter(tokenizer, 128, 16).split(Document("d", text)))
        assert len(passages) > 3
        assert max(tokenizer.count(passage.text) for passage in passages) <= 126


@given(st.lists(LINES, max_size=30).map("\n".join), st.integers(0, 9))
def test_blocks_of_code_end_at_the_nearest_fence_that_is_long_enough(text, start):
    end = len(text) - 2
    found = [block.span() for block in CODE.finditer(text, start, end)]
    assert [*blocks_of_code(text, start, end)] == found


@pytest.mark.parametrize(
    "piece", ["```a\n", "```\n", "~~~\n", "`", "~", "```\n~~~~a\n", "`" * 9 + "\n"]
)
@pytest.mark.parametrize("start", ["", "````\n"])
def test_the_time_to_find_code_grows_with_the_text(start, piece):
    def find(count):
        text = start + piece * count
        return [*blocks_of_code(text, 0, len(text))]

    assert grows_evenly(find, 2_000)


def test_a_title_is_read_as_far_as_an_encoder_reads(tokenizer):
    title, text = "word " * 1_000_000, "some text"
    assert encoder_text(title, text) == f"{title[:LONGEST_TITLE]} {text}"
    assert tokenizer.encode(encoder_text(title, text)) == tokenizer.encode(f"{title} {text}")
    assert encoder_text(title, "") == f"{title} "


def test_headings_stand_between_title_and_text_and_count(tokenizer):
    heading, most = "Install > Linux", 40
    text = "one two three " * 100
    document = Document("d", text, "Swiftlet", sections=(Section(0, len(text), heading),))
    for passage in PassageSplitter(tokenizer, most, 0, headings=True).split(document):
        read = encoder_text(document.title, passage.text, passage.heading)
        assert read == f"Swiftlet {heading} {passage.text}"
        assert tokenizer.count(read) <= most - tokenizer.num_special_tokens
    assert encoder_text("", "text", heading) == f"{heading} text"


@pytest.mark.check
def test_a_document_of_a_megabyte_is_cut_in_bounded_memory(tokenizer, peak_megabytes):
    sentence = "The quick brown fox jumps over the lazy dog, and nobody knows why it does so. "
    document = Document("d", sentence * (1_000_000 // len(sentence)))
    passages: list[Passage] = []
    splitter = PassageSplitter(tokenizer, 128, 16)
    # An encoding of the whole would take 175 MB.
    assert peak_megabytes(lambda: passages.extend(splitter.split(document))) < 60
    assert passages[-1].end == len(document.text.rstrip())
    assert all(0 < earlier.end - later.start < 80 for earlier, later in pairwise(passages))


def test_a_long_title_leaves_half_of_each_passage_to_the_text(tokenizer):
    title = "unbelievable " * 80
    text = "photosynthesis and respiration " * 300
    splitter = PassageSplitter(tokenizer, 128, 16)
    lengths = [tokenizer.count(p.text) for p in splitter.split(Document("d", text, title))]
    assert 60 <= min(lengths) <= max(lengths) <= 63
    short = [tokenizer.count(p.text) for p in splitter.split(Document("d", text, "Plants"))]
    assert 115 <= min(short) <= max(short) <= 125


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b"])
@pytest.mark.parametrize("title", ["", "Only a title"])
@pytest.mark.parametrize("sections", [(), ((0, 0),)])
def test_a_document_without_words_is_one_empty_passage(tokenizer, text, title, sections):
    document = Document("d", text, title, sections=sections)
    passages = list(PassageSplitter(tokenizer, 128, 16).split(document))
    assert passages == [Passage("d#0", "d", "", 0, 0)]
    assert encoder_text(title, "").strip() == title


@pytest.mark.parametrize("length", [0, 10, 5000])
def test_truncating_makes_one_passage_of_the_whole_text(tokenizer, length):
    document = Document("d", "word " * length, "Title", sections=((0, 3), (3, 5 * length)))
    splitter = PassageSplitter(tokenizer, tokenizer.max_tokens, 0, truncate=True)
    assert list(splitter.split(document)) == [
        Passage("d#0", "d", document.text, 0, len(document.text))
    ]


def test_a_word_longer_than_a_passage_is_a_passage_of_its_own_and_the_rest_is_split_as_usual(
    tokenizer,
):
    gene = "".join(random.Random(0).choices("acgt", k=95))
    assert tokenizer.count(gene) > 30
    text = f"one two three four five six seven {gene} eight nine ten eleven twelve thirteen"
    document = Document("d", text)
    passages = list(PassageSplitter(tokenizer, 16, 5).split(document))
    assert " ".join(p.text for p in PassageSplitter(tokenizer, 16, 0).split(document)).replace(
        " ", ""
    ) == text.replace(" ", "")
    assert all(earlier.end < later.end for earlier, later in pairwise(passages))
    assert all(tokenizer.count(p.text) <= 32 for p in passages)
    assert max(tokenizer.count(p.text) for p in passages if gene[:5] not in p.text) <= 32


@pytest.mark.parametrize(
    ("max_tokens", "overlap_tokens", "message"),
    [
        (9, 0, "a passage of 9 tokens is out of range: this encoder takes 10 to 256"),
        (257, 0, "a passage of 257 tokens is out of range: this encoder takes 10 to 256"),
        (128, -1, "an overlap of -1 tokens .* passages of 128 tokens may overlap by 0 to 64"),
        (128, 65, "an overlap of 65 tokens .* passages of 128 tokens may overlap by 0 to 64"),
    ],
)
def test_lengths_out_of_range_are_refused_with_their_bounds(
    tokenizer, max_tokens, overlap_tokens, message
):
    with pytest.raises(InvalidArgumentError, match=f"^{message} \\(--.*\\)$"):
        PassageSplitter(tokenizer, max_tokens, overlap_tokens)
