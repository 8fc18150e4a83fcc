"""The passages of an index for the ranking loss."""

import numpy as np
import torch

from swiftlet.index.lexical.index import LexicalIndex
from swiftlet.index.lexical.writer import write_lexical_index
from swiftlet.index.vectors.faiss_index import FaissIndex
from training.distillation.ranking import Neighbours

TEXTS = ["bees find their way", "a bridge of steel", "the way of a river"]


def test_they_are_the_best_by_meaning_and_by_words(tmp_path):
    index = FaissIndex.create("Flat", 3)
    index.add(torch.eye(3).numpy())
    write_lexical_index(tmp_path / "words", ((text, ()) for text in TEXTS), "none")
    words = LexicalIndex.open(tmp_path / "words", "none")
    by_meaning = torch.tensor([[0.0, 0.0, 1.0]])
    assert Neighbours(index, None, 1).rows(["steel"], by_meaning).tolist() == [2]
    both = Neighbours(index, words, 1)
    assert both.rows(["steel"], by_meaning).tolist() == [1, 2]
    assert both.rows(["unknown"], by_meaning).tolist() == [2]
    assert both.rows([], by_meaning[:0]).tolist() == []
    assert both.embeddings(np.array([2, 1, 2])).tolist() == [[0, 1, 0], [0, 0, 1]]
