"""Makes the artefacts of this folder, and `expected.json`, which has what they answer.

They are those of 37a26d1. To make them again, copy this folder into a checkout of that commit, and
run `python -m tests.artefacts.make OUT` there. Indexes remember the path of OUT.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tokenizers import Tokenizer

import swiftlet
from export.encoder_directory import export_encoder
from export.reranker_directory import export_reranker
from swiftlet.indexing.query_encoder import put_query_encoder
from tests.artefacts.answers import FOLDER, answers, unclear
from training.model.lookup import make_lookup
from training.model.poolings.first_tokens import FirstTokensPooling

TOPICS = {
    "volcano": "Molten rock rises through the crust and erupts as lava and ash near the crater.",
    "bread": "Flour, water, salt and yeast are kneaded, left to rise and baked in a hot oven.",
    "chess": "Two players move their pieces on a board of 64 squares until one king is mated.",
    "violin": "A bow is drawn across four strings while the wooden body carries their sound.",
    "tides": "The moon and the sun raise and lower the water of the sea twice in a day.",
    "glacier": "Snow that was packed over centuries becomes ice and flows slowly down a valley.",
    "bees": "Worker bees gather nectar, dance to show where flowers are and make honey.",
    "printing": "Movable type made books cheap, so that ideas could spread to many towns quickly.",
}
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:;-"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
BOTH = ("fp32", "int8")


def documents() -> Iterator[swiftlet.Document]:
    """Twenty-four different documents; each third has sections with headings."""
    chance = Random(3)
    for number in range(24):
        topic, odd = list(TOPICS)[number % len(TOPICS)], number % 2
        texts = [TOPICS[topic], *chance.sample(list(TOPICS.values()), chance.randint(1, 3))]
        words = [word for text in texts for word in text.split()]
        for _ in range(6):
            words.insert(chance.randrange(len(words)), chance.choice(words))
        text, half = " ".join(words), len(" ".join(words[: len(words) // 2]))
        sections = ((0, half, f"{topic.capitalize()} > One"), (half + 1, len(text), "Two"))
        yield swiftlet.Document(
            f"{topic}-{number}",
            text,
            title=f"The {topic} {chance.choice(words).strip('.,').lower()}",
            metadata={
                "topic": topic,
                "year": 2000 + number,
                "tags": chance.sample(["ash", "lava", "salt", "sea", "wood"], 2),
                "author": {"name": chance.choice(["Ada", "Grace"])},
                **({"draft": True, "published": f"2020-0{number % 9 + 1}-01"} if odd else {}),
            },
            sections=sections if number % 3 == 0 else (),
        )


def changed() -> list[dict[str, object]]:
    """Documents that are put later: one is new, the other replaces an earlier one."""
    return [
        {"_id": "kite", "title": "Kites", "text": "A kite flies over the sea when wind carries it.",
         "metadata": {"topic": "kite", "year": 2030, "tags": ["sea"], "wind": 7.5}},
        {"_id": "bread-1", "title": "Rye bread", "text": f"Rye and salt. {TOPICS['bread']}",
         "metadata": {"topic": "bread", "year": 2031, "tags": ["rye", "salt"]}},
    ]  # fmt: skip


def checkpoint(folder: Path, kind: type, seed: int, **settings: object) -> Path:
    """A tiny BERT with random weights that differ enough for texts to differ."""
    folder.mkdir()
    words = {word.strip(".,").lower() for text in TOPICS.values() for word in text.split()}
    others = (f"##{letter}" for letter in LETTERS)
    pieces = [*SPECIAL, *LETTERS, *others, *sorted(words - set(LETTERS))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=48)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=48, **SIZES, **settings
    )
    torch.manual_seed(seed)
    model = kind(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "position" not in name:
                weight.mul_(30 if "classifier" in name else 8)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_encoders(models: Path, out: Path) -> None:
    """An encoder, one with static scales, a pair with several vectors a passage, a re-ranker."""
    plain = checkpoint(models / "plain", transformers.BertModel, 1, num_hidden_layers=1)
    prompts = {"query": "show ", "passage": "type: "}
    export_encoder(plain, out / "encoder", pooling="mean", prompts=prompts, precisions=BOTH)
    static = ["int8_static"]
    export_encoder(plain, out / "static", pooling="cls", precisions=static, name="a static one")

    several = [modules.Transformer(str(plain), max_seq_length=40), FirstTokensPooling(16, 3)]
    SentenceTransformer(modules=several, device="cpu").save(str(models / "several"))
    space = export_encoder(
        models / "several", out / "pair" / "document_encoder", precisions=["int8"], role="passage"
    ).embedding_space
    tokenizer = Tokenizer.from_file(str(plain / "tokenizer.json"))
    torch.manual_seed(2)
    table = make_lookup(tokenizer, torch.randn(tokenizer.get_vocab_size(), 16), 40)
    table.save(str(models / "table"))
    export_encoder(
        models / "table", out / "pair" / "query_encoder", precisions=BOTH, role="query", space=space
    )

    cross = transformers.BertForSequenceClassification
    pairs = checkpoint(models / "pairs", cross, 5, num_hidden_layers=1, num_labels=1)
    export_reranker(pairs, out / "reranker")


def make_indexes(out: Path) -> None:
    """One index of each kind, and the shards of one."""
    built = {"encoder": out / "encoder", "passage_tokens": 32, "overlap_tokens": 4}
    fp32, dense = {**built, "precision": "fp32"}, {"language": None}
    swiftlet.build(documents(), out / "words", **fp32, facets=["topic", "author.name"])
    swiftlet.build(documents(), out / "changed", **fp32, facets=["topic", "author.name"])
    with swiftlet.write(out / "changed", encoder=out / "encoder") as writer:
        writer.put(changed())
        writer.delete(["tides-4", "bees-14"])
    swiftlet.build(documents(), out / "flat", **fp32, **dense, factory="Flat")
    swiftlet.build(documents(), out / "lists", **fp32, **dense, factory="IVF4,SQ8")
    codes = "PCAR12,IVF1,PQ6x4fs,Refine(SQ8)"  # as a large corpus has them by default
    swiftlet.build(documents(), out / "codes", **built, **dense, factory=codes)

    def own_encoder(index: Path, _working: Path) -> object:
        return put_query_encoder(out / "encoder", index, {"query_encoder": {"name": "its own"}})

    pieces = {"language": "word-pieces-and-pairs", "finish": own_encoder}
    swiftlet.build(documents(), out / "pieces", **fp32, **pieces)
    of_pair = {"encoder": out / "pair" / "document_encoder", "truncate": True}
    swiftlet.build(documents(), out / "several", **of_pair, language="none")
    with swiftlet.write(out / "several", encoder=of_pair["encoder"]) as writer:
        writer.put(changed())
    for number in (1, 2):
        shard = {**fp32, "shard": (number, 2), "half": number == 2}
        swiftlet.encode(documents(), out / "shards" / str(number), **shard)


def main() -> None:
    """Make everything in the folder that the command line names, and copy it here."""
    out = Path(sys.argv[1]).resolve()
    models = out / "models"
    models.mkdir(parents=True)
    make_encoders(models, out)
    make_indexes(out)
    shutil.rmtree(models)
    for each in out.iterdir():
        shutil.rmtree(FOLDER / each.name, ignore_errors=True)
        shutil.copytree(each, FOLDER / each.name)
    if close := unclear(out):
        sys.exit(f"scores that are nearly equal: {close}")
    found = json.dumps(answers(out), indent=1, ensure_ascii=False)
    (FOLDER / "expected.json").write_text(found + "\n", "utf-8")


if __name__ == "__main__":
    main()
