import threading
from collections.abc import Iterator

import pytest

from swiftlet.encoders.encoding import encode_batches, encode_texts
from tests.number_encoder import Numbers, numbers


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 1000])
def test_embeddings_come_in_the_order_of_the_texts_whatever_the_threads(count, threads):
    batches = list(encode_batches(Numbers(), iter(numbers(count)), threads))
    assert [row for batch in batches for row in batch[:, 0].tolist()] == list(range(count))


def test_texts_are_read_only_a_little_ahead():
    taken = 0

    def texts() -> Iterator[str]:
        nonlocal taken
        for text in numbers(10_000):
            taken += 1
            yield text

    batches = encode_batches(Numbers(), texts(), threads=2)
    for done in range(1, 20):
        next(batches)
        assert taken <= 32 * (done + 2 * 4)
    batches.close()
    assert taken < 1000


@pytest.mark.parametrize("bad", ["0", "500", "999"])
def test_an_error_in_a_text_ends_the_encoding_and_its_threads(bad):
    texts = ["no number" if text == bad else text for text in numbers(1000)]
    with pytest.raises(ValueError, match="invalid literal"):
        list(encode_batches(Numbers(), texts, threads=3))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("encode")]


def test_no_texts_have_no_embeddings():
    assert encode_texts(Numbers(), []).shape == (0, Numbers.dim)
