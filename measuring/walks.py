"""Five walks through the code of a checkout: the calls of its own functions, in order of time.

A walk is one piece of work from its beginning to its end. A return is a change to a file that the
walk left before. Functions without a name are left out, since they are parts of others. The review
of 37a26d1 counted them, and in a build the bodies of modules too, so its numbers are a little
greater.
"""

import inspect
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import combinations, pairwise, takewhile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from urllib.request import Request, urlopen

NUMBERS = "calls · functions · files · changes of file · returns"
PACKAGES = ("swiftlet", "service", "training", "export")
SEARCHING = "Searcher.search"
KEY = "a-key-of-the-walks"
SEARCH: dict[str, Any] = {"query": "hot lava", "top_k": 10, "mode": "hybrid"}
WORDS = ["".join(two) for two in combinations(("ka", "lo", "mi", "ne", "pu", "ra", "so", "ti"), 2)]
PAIRS = [*combinations(WORDS, 2)][:44]
RECIPE = """
recipe = "daft"
data = [{{corpus = "{0}", qrels = "train"}}]
query_encoder = {{model = "{0}/model", pooling = "mean"}}
document_encoder = {{model = "{0}/model", pooling = "mean"}}
passages = {{tokens = 16, overlap_tokens = 0, truncate = true}}
validation = {{queries = 12}}
negatives = {{per_query = 4}}
optimiser = {{batch_size = 8}}
alignment = {{max_epochs = 1}}
fine_tuning = {{epochs = 2}}
collapse = {{stop = false, ndcg_share = 0.0}}
"""

Calls = list[CodeType]


class Trace:
    """Records the calls of own functions, on all threads."""

    def __init__(self, root: Path) -> None:
        self._own = tuple(f"{root / package}{os.sep}" for package in PACKAGES)
        self._calls: Calls | None = None
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code, calls = frame.f_code, self._calls
        if calls is None or event != "call" or not code.co_filename.startswith(self._own):
            return
        # A class has a frame, too, while it is made.
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
            calls.append(code)

    @contextmanager
    def walk(self) -> Iterator[Calls]:
        """The calls until the end of the context."""
        calls: Calls = []
        self._calls = calls
        try:
            yield calls
        finally:
            self._calls = None


def described(*walks: Calls) -> str:
    """The numbers of a walk; of several walks the shortest one, without calls of other work."""
    calls = min(walks, key=len)
    files = [code.co_filename for code in calls]
    changes = sum(one != other for one, other in pairwise(files))
    different = len(set(files))
    numbers = len(calls), len(set(calls)), different, changes, changes - different + 1
    return " · ".join(map(str, numbers))


def write_rows(path: Path, texts: Sequence[str]) -> Path:
    """Write texts as the documents or the queries of a collection."""
    rows = (json.dumps({"_id": f"{number}", "text": text}) for number, text in enumerate(texts))
    path.write_text("\n".join(rows), "utf-8")
    return path


def library_walks(trace: Trace, folder: Path) -> dict[str, str]:
    """A hybrid search, and a build of one document; an earlier build has imported the modules."""
    import swiftlet

    many = write_rows(folder / "many.jsonl", [f"Lava and ash, {number}." for number in range(60)])
    swiftlet.build(many, folder / "index")
    one = write_rows(folder / "one.jsonl", ["Lava and ash."])
    with trace.walk() as build:
        swiftlet.build(one, folder / "one")
    with swiftlet.open(folder / "index") as searcher:
        searcher.search(**SEARCH)
        with trace.walk() as search:
            searcher.search(**SEARCH)
    return {"`Searcher.search`, hybrid": described(search), "`swiftlet.build`": described(build)}


def training_walks(trace: Trace, root: Path, folder: Path) -> dict[str, str]:
    """A step of the second stage of DAFT, and an export, of tiny models."""
    import transformers
    from torch.optim.optimizer import register_optimizer_step_post_hook

    (folder / "model").mkdir()
    vocabulary = folder / "model" / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    tokenizer = transformers.BertTokenizerFast(str(vocabulary), model_max_length=16)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    transformers.set_seed(0)
    tokenizer.save_pretrained(folder / "model")
    transformers.BertModel(config).save_pretrained(folder / "model")
    write_rows(folder / "corpus.jsonl", [" ".join(pair) for pair in PAIRS])
    write_rows(folder / "queries.jsonl", [" ".join(pair) for pair in PAIRS])
    judged = ["query-id\tcorpus-id\tscore", *(f"{n}\t{n}\t1" for n in range(len(PAIRS)))]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "train.tsv").write_text("\n".join(judged))
    (folder / "recipe.toml").write_text(RECIPE.format(folder))
    ends: list[int] = []
    register_optimizer_step_post_hook(lambda *_: ends.append(len(calls)))
    with trace.walk() as calls:
        command("train", folder / "recipe.toml", "--out", folder / "run")
    # The bars of the command line are drawn by a thread that follows the clock.
    steps = [
        [code for code in calls[begin:end] if "/cli/" not in code.co_filename]
        for begin, end in pairwise(ends[-4:])
    ]
    (place,) = (
        path.relative_to(root).with_suffix("")
        for path in (root / "export").rglob("*.py")
        if "\ndef export_encoder(" in path.read_text("utf-8")
    )
    export_encoder = import_module(".".join(place.parts)).export_encoder
    with trace.walk() as export:
        export_encoder(folder / "model", folder / "encoder", pooling="mean")
    return {"a step of DAFT": described(*steps), "`export_encoder`": described(export)}


def service_walks(trace: Trace, root: Path, folder: Path) -> dict[str, str]:
    """A hybrid search and a put over HTTP, each repeated; a document is encoded elsewhere."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    facts: dict[str, str] = {}

    def ask(method: str, path: str, body: object) -> Calls:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        request = Request(f"{address}{path}", json.dumps(body).encode(), headers, method=method)
        with trace.walk() as calls, urlopen(request, timeout=100) as answer:
            answer.read()
        return calls

    def ask_all() -> None:
        searches: list[Calls] = []
        while not searches:
            with suppress(OSError):  # not ready yet
                searches.append(ask("POST", "/search", SEARCH))
            time.sleep(0.1)
        try:
            searches = [ask("POST", "/search", SEARCH) for _ in range(5)]
            texts = [{"_id": f"new-{number}", "text": "Snow and ice."} for number in range(6)]
            puts = [ask("PUT", "/documents", {"documents": [each]}) for each in texts]
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
        facts["POST /search, hybrid"] = described(*searches)
        facts["from the socket to `Searcher.search`"] = described(
            *([*takewhile(lambda code: code.co_qualname != SEARCHING, calls)] for calls in searches)
        )
        facts["PUT /documents"] = described(*puts[1:])

    os.environ["SWIFTLET_WRITE_KEYS"] = KEY
    if (root / "service" / "workers.py").exists():  # other processes are not walked
        os.environ["SWIFTLET_WORKERS"] = "1"
    client = threading.Thread(target=ask_all, daemon=True)
    client.start()
    command("serve", folder / "index", "--port", address.rpartition(":")[2])
    client.join()
    return facts


def command(*arguments: object) -> None:
    """Run a command of `swiftlet` in this process."""
    sys.argv = ["swiftlet", *map(str, arguments)]
    try:
        import_module("swiftlet.__main__").main()
    except SystemExit as ended:
        if ended.code:
            raise


def walks(root: Path) -> dict[str, str]:
    """The numbers of each walk: calls, functions, files, changes of file, and returns."""
    trace = Trace(root)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = library_walks(trace, folder)
        found |= training_walks(trace, root, folder) | service_walks(trace, root, folder)
    return {f"{walk}: {NUMBERS}": numbers for walk, numbers in found.items()}


if __name__ == "__main__":
    print(
        f"{__doc__}\n`python -m measuring.house CHECKOUT …` shows them, a column for each checkout."
    )
