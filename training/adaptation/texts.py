"""The texts of an adaptation to an index: for training, and for the test."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from swiftlet import disk
from swiftlet.errors import InvalidArgumentError
from swiftlet.evaluation.experiment import JudgedSet
from swiftlet.index.directory import documents
from swiftlet.types import Qrels, Query
from training.data.judged_split import split_by_documents
from training.data.sentences import Sentence, sample_sentences
from training.distillation.settings import Judged

_SENTENCES = 12_000
_HELD_OUT, _FEWEST_HELD_OUT = 500, 200
_SHARE = 5


@dataclass(frozen=True, slots=True)
class AdaptationTexts:
    """Files of queries and their qrels: those to train on, and the test."""

    training: tuple[Judged, ...]
    test: Judged

    @property
    def key(self) -> str:
        """A hash of what is trained on."""
        digest = hashlib.sha256()
        for judged in self.training:
            for path in (judged.queries, judged.qrels):
                digest.update(Path(path).read_bytes())
        return digest.hexdigest()


def known_items(index: Path, folder: Path, seed: int = 0) -> AdaptationTexts:
    """Sentences, each a query for its document; a fifth of them, at most 500, are the test.

    :raises InvalidArgumentError: When the index has too few sentences.
    """
    found = _sentences(index, seed, _SENTENCES + _HELD_OUT)
    held_out = min(_HELD_OUT, len(found) // _SHARE)
    if held_out < _FEWEST_HELD_OUT:
        raise InvalidArgumentError(
            f"the corpus is too small to adapt to: it has {len(found):,} different sentences, at "
            f"least {_SHARE * _FEWEST_HELD_OUT:,} are needed; leave the adaptation out, or use "
            "judged queries with swiftlet adapt"
        )
    return AdaptationTexts(
        training=(_known_items(folder / "sentences", found[held_out:]),),
        test=_known_items(folder / "test", found[:held_out]),
    )


def judged_queries(
    index: Path, judgements: JudgedSet, folder: Path, advice: str, seed: int = 0
) -> AdaptationTexts:
    """Judged queries in two parts without a document in common, and sentences for training.

    :param advice: What to do instead where there are too few queries.
    :raises TrainingDataError: When there are too few queries.
    """
    learnt, held_out = split_by_documents(judgements, f"; {advice}")
    sentences = _sentences(index, seed, _SENTENCES)
    known = (_known_items(folder / "sentences", sentences),) if sentences else ()
    return AdaptationTexts(
        training=(_written(folder / "training", learnt, judgements.qrels), *known),
        test=_written(folder / "test", held_out, judgements.qrels),
    )


def _sentences(index: Path, seed: int, count: int) -> list[Sentence]:
    """At most `count` sentences of the documents, different ones in random order."""
    found = sample_sentences(documents(index), count, seed)
    different = list({each.text.casefold(): each for each in found}.values())
    Random(seed).shuffle(different)  # noqa: S311 - a sample, not a secret
    return different


def _known_items(path: Path, sentences: Sequence[Sentence]) -> Judged:
    queries = [Query(str(number), each.text) for number, each in enumerate(sentences)]
    qrels = {str(number): {each.document_id: 1} for number, each in enumerate(sentences)}
    return _written(path, queries, qrels).model_copy(update={"sentences": True})


def _written(path: Path, queries: Sequence[Query], qrels: Qrels) -> Judged:
    """Write queries and their judgements in BEIR's formats, beside each other."""
    disk.make_directory(path.parent, parents=True, exist_ok=True)
    rows = [json.dumps({"_id": each.query_id, "text": each.text}) for each in queries]
    judgements = [
        f"{each.query_id}\t{document_id}\t{grade}"
        for each in queries
        for document_id, grade in qrels[each.query_id].items()
    ]
    judged = Judged(queries=f"{path}.jsonl", qrels=f"{path}.tsv")
    disk.write(Path(judged.queries), "\n".join(rows))
    disk.write(Path(judged.qrels), "\n".join(["query-id\tcorpus-id\tscore", *judgements]))
    return judged
