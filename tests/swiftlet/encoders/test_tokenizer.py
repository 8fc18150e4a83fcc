import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swiftlet.encoders import DEFAULT_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.errors import CorruptArtefactError
from swiftlet.text import normalise

SCRIPTS = [
    "It's the café's crème-brûlée, isn't it? (£3.50)",
    "Straße, naïve, Ωμέγα, Москва́, İstanbul",
    "これはペンです。東京都に住んでいます",
    "이것은 한국어 문장입니다",
    "यह हिन्दी में एक वाक्य है",
    "هذا نَصٌّ عربيّ مُشَكَّل",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
    "👩‍👩‍👧 ☀️ 🇩🇪 e\u0301 \u200bzero\u200dwidth\ufeff",
    "x=f(a[0],{1:2})//3; https://example.org/a?b=c#d",
]
TEXTS = st.lists(st.sampled_from(SCRIPTS) | st.text(max_size=30), max_size=12).map(" ".join)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(DEFAULT_ENCODER / TOKENIZER_FILE)


@pytest.fixture(scope="module")
def reference() -> tokenizers.Tokenizer:
    """The library's own, which truncates after it has tokenised everything."""
    reference = tokenizers.Tokenizer.from_file(str(DEFAULT_ENCODER / TOKENIZER_FILE))
    reference.no_padding()
    return reference


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_a_text_has_the_ids_that_the_library_gives_the_stripped_text(tokenizer, reference, text):
    assert tokenizer.encode(f"\n {text}\t") == reference.encode(normalise(text).strip()).ids


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("script", [*SCRIPTS, "a" * 90, "\u200b"])
def test_truncating_a_long_text_gives_the_ids_of_tokenising_it_whole(reference, script, side):
    library = tokenizers.Tokenizer.from_str(reference.to_str())
    library.enable_truncation(24, direction=side)
    tokenizer = Tokenizer(library)
    text = " ".join(f"{script} {number}" for number in range(1000))
    ids = tokenizer.encode(text)
    assert ids == library.encode(text).ids
    assert len(ids) <= tokenizer.max_tokens
    assert tokenizer.encode(f"{' ' * 100_000}{text}{' ' * 100_000}") == ids


@pytest.mark.check
def test_truncating_megabytes_takes_hardly_any_memory(tokenizer, peak_megabytes):
    text = "The quick brown fox jumps over the lazy dog. " * 100_000
    assert peak_megabytes(lambda: tokenizer.encode(text)) < 5
    assert peak_megabytes(lambda: tokenizer.count(text[:1_000_000])) < 60


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.data())
@example("a" * 99, None)
def test_the_words_of_a_span_hold_all_its_tokens_in_order(tokenizer, text, data):
    start = data.draw(st.integers(0, len(text))) if data else 0
    end = data.draw(st.integers(start, len(text))) if data else len(text)
    words = list(tokenizer.words(text, start, end))
    assert sum(tokens for *_, tokens in words) == tokenizer.count(text[start:end])
    whole = tokenizer._whole.encode(normalise(text[start:end]), add_special_tokens=False)
    assert tokenizer.count(text[start:end]) == len(whole.ids)
    edges = [position for word in words for position in word[:2]]
    assert edges == sorted(edges)
    assert not edges or (start <= edges[0] and edges[-1] <= end)
    assert all(1 <= tokens <= 32 for *_, tokens in words)
    assert not any(character.isspace() for a, b, _ in words for character in text[a:b])


@settings(max_examples=60, deadline=None)
@given(TEXTS)
@example("[CLS]a [MASK] \u0301 \u200b ab\u0301")
def test_words_are_the_same_whether_their_parts_are_known_or_not(tokenizer, text):
    block = normalise(text)
    encoding = tokenizer._whole.encode(block, add_special_tokens=False)
    for _ in range(2):
        assert [*tokenizer.words(text, 0, len(text))] == [*tokenizer._words_in(block, encoding)]
        assert tokenizer.encode(text)[1:-1] == encoding.ids[: tokenizer.max_tokens - 2]


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.sampled_from(["\n", "\n\n", "\t", " \n  "]))
def test_ends_of_lines_are_tokens_where_a_tokenizer_has_them(text, end):
    bytes_of = tokenizers.ByteLevelBPETokenizer()
    bytes_of.train_from_iterator(SCRIPTS, special_tokens=["<s>"], show_progress=False)
    library = tokenizers.Tokenizer.from_str(bytes_of.to_str())
    library.enable_truncation(10_000)
    tokenizer = Tokenizer(library)
    text = f"a{end}{text}{end}{text}{end}z"
    assert tokenizer.encode(f"\n{text}\n") == library.encode(text).ids
    words = [*tokenizer.words(text, 0, len(text))]
    # Their tokens count, but they are at no end of a word, and so at no end of a passage.
    assert sum(tokens for *_, tokens in words) == len(library.encode(text).ids)
    assert all(text[a:b].strip(f" {end}") == text[a:b] for a, b, _ in words)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_word_keeps_the_accents_and_joiners_that_the_tokenizer_drops(tokenizer, script):
    spans = list(tokenizer.words(script, 0, len(script)))
    covered = {position for start, end, _ in spans for position in range(start, end)}
    missed = {character for n, character in enumerate(script) if n not in covered}
    # Only what stands before the first token of a word has no word to belong to.
    assert missed <= {" ", "\u200b"}


def test_words_are_the_same_whether_a_text_is_read_in_one_block_or_in_many(tokenizer):
    text = " ".join(SCRIPTS) + "\n"
    many = text * (200_000 // len(text))
    period = [(start, end, tokens) for start, end, tokens in tokenizer.words(text, 0, len(text))]
    found = list(tokenizer.words(many, 0, len(many)))
    assert found == [
        (start + shift, end + shift, tokens)
        for shift in range(0, len(many), len(text))
        for start, end, tokens in period
    ]


def test_threads_share_a_tokenizer(tokenizer):
    texts = [" ".join(SCRIPTS[: n % 9 + 1]) for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenizer.encode, texts)) == [tokenizer.encode(text) for text in texts]


def forged(path: Path, **changes: Any) -> Path:
    """A tokenizer.json with some fields of `truncation` and `model` changed."""
    fields = json.loads((DEFAULT_ENCODER / TOKENIZER_FILE).read_text())
    for part, values in changes.items():
        fields[part] = values if values is None else {**fields[part], **values}
    path.write_text(json.dumps(fields))
    return path


def test_a_stride_that_is_longer_than_a_text_has_no_effect(tmp_path):
    path = forged(tmp_path / "tokenizer.json", truncation={"max_length": 10, "stride": 10})
    assert len(Tokenizer.load(path).encode("tea and bread " * 1_000)) == 10


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff\x00", None, "no truncation", "no unknown words", "missing"]
)
def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    if content == "no truncation":
        forged(path, truncation=None)
    elif content == "no unknown words":
        forged(path, model={"unk_token": "[NOT IN THE VOCABULARY]"})
    elif content is None:
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(CorruptArtefactError, match=r"tokenizer\.json is not a usable tokenizer: "):
        Tokenizer.load(path)
