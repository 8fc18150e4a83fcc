"""Tokenising queries: the time beside that of the tokenizers library, and whether the ids are its.

    python -m benchmarks.tokenising --data ../shared/data

Writes docs/results/tokenising.json and its page. Takes a minute.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import tokenizers

from measuring.command_line import script_options
from measuring.machine import describe_machine
from measuring.results import RESULTS, alternating, at_most, none_of, spread, write
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.encoders.encoder import TOKENIZER_FILE
from swiftlet.encoders.tokenizer import Tokenizer
from swiftlet.text import normalise

FILE = DEFAULT_QUERY_ENCODER / TOKENIZER_FILE
TOKENS, MOST_US, QUERIES, ROUNDS = 15, 30, 2_000, 20
MOST_CHARACTERS = 3_000  # longer texts are not tokenised word by word
NEW, KNOWN, LIBRARY = "words that came before, or not", "words that came before", "tokenizers"


def main() -> None:
    options = script_options(__doc__, data=Path, raw=RESULTS / "tokenising.json")
    library = tokenizers.Tokenizer.from_file(str(FILE))
    library.no_padding()

    def expected(text: str) -> list[int]:
        ids: list[int] = library.encode(normalise(text).strip()).ids
        return ids

    ours, differences, count = Tokenizer.load(FILE), 0, 0
    for text in texts(options.data, "*.jsonl"):
        count += 1
        differences += ours.encode(text) != expected(text)
    queries = list(dict.fromkeys(texts(options.data, "queries.jsonl")))
    queries = [text for text in queries if len(ours.encode(text)) == TOKENS][:QUERIES]
    us: dict[str, list[float]] = {name: [] for name in (NEW, KNOWN, LIBRARY)}
    for name in alternating(us, ROUNDS):
        known = Tokenizer.load(FILE)
        encode: Callable[[str], list[int]] = expected if name == LIBRARY else known.encode
        if name == KNOWN:
            [encode(text) for text in queries]
        began = time.process_time()
        for text in queries:
            encode(text)
        us[name].append(1e6 * (time.process_time() - began) / len(queries))
    found = {name: spread(values) for name, values in us.items()}
    measured = found[NEW]["median"]
    figures = {
        "template": "benchmarks/tokenising.md.j2",
        "machine": describe_machine(["tokenizers"], threads="1"),
        "tokens": TOKENS,
        "queries": len(queries),
        "rounds": ROUNDS,
        "texts": count,
        "us": found,
        "bounds": [
            at_most(f"µs for a query of {TOKENS} tokens", measured, MOST_US, "{:.1f}".format),
            none_of("texts with other ids", differences),
        ],
    }
    print(write(options.raw, figures))


def texts(data: Path, pattern: str) -> Iterator[str]:
    """The titles and texts of the collections, in parts that are tokenised word by word."""
    for path in sorted(data.rglob(pattern)):
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            for text in (record.get("title"), record.get("text")):
                if isinstance(text, str):
                    for start in range(0, max(1, len(text)), MOST_CHARACTERS):
                        yield text[start : start + MOST_CHARACTERS]


if __name__ == "__main__":
    main()
