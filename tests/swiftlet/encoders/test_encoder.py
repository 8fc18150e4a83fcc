import json
import random
import re
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array, to_array

from swiftlet.encoders import DEFAULT_ENCODER, LOOKUP_QUERY_ENCODER
from swiftlet.encoders.encoder import CANONICAL_FILE, MODEL_FILES, TOKENIZER_FILE, OnnxEncoder
from swiftlet.errors import CorruptArtefactError, InvalidArgumentError, ManifestError
from swiftlet.manifest import (
    FORMAT_VERSION,
    describe_files,
    read_manifest,
    write_manifest,
)

TEXTS = [
    "How are embeddings made?",
    "a",
    "",
    "Ωμέγα 光合作用 में 👩‍👩‍👧",
    "The mitochondrion is the powerhouse of the cell. " * 3,
    "far too long " * 400,
    "?",
]


def canonical() -> dict[str, object]:
    return json.loads((DEFAULT_ENCODER / CANONICAL_FILE).read_text())


def test_embeddings_are_normalised_float32_rows_in_the_order_of_the_texts(shipped_encoder):
    embeddings = shipped_encoder.encode(TEXTS)
    assert embeddings.shape == (len(TEXTS), shipped_encoder.dim)
    assert embeddings.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    assert shipped_encoder.encode([]).shape == (0, shipped_encoder.dim)
    assert shipped_encoder.embedding_space == read_manifest(DEFAULT_ENCODER).embedding_space


def test_a_text_has_the_same_embedding_bit_for_bit_in_any_batch(shipped_encoder):
    alone = [shipped_encoder.encode([text]).tobytes() for text in TEXTS]
    together = shipped_encoder.encode([*reversed(TEXTS), *TEXTS])[len(TEXTS) :]
    assert [row.tobytes() for row in together] == alone
    with ThreadPoolExecutor(8) as pool:
        at_once = pool.map(lambda text: shipped_encoder.encode([text]).tobytes(), TEXTS * 8)
        assert list(at_once) == alone * 8


def test_white_space_and_text_beyond_the_truncation_change_nothing(shipped_encoder):
    words = ["word"] * (shipped_encoder.max_tokens - 2)
    texts = [" ".join(words), "\n\t".join(words) + "\x0b", " ".join([*words, "other", "things"])]
    assert len({row.tobytes() for row in shipped_encoder.encode(texts)}) == 1
    assert len(shipped_encoder.tokenise(texts[2])) == shipped_encoder.max_tokens


def test_texts_with_the_same_meaning_are_nearer_than_texts_with_the_same_words(shipped_encoder):
    query, answer, other = shipped_encoder.encode(
        ["how do volcanoes erupt", "Molten rock rises and bursts out as lava.", "how do bees dance"]
    )
    assert query @ answer > query @ other


def test_encoding_stays_on_the_calling_thread(shipped_encoder):
    everywhere, here = time.process_time(), time.thread_time()
    shipped_encoder.encode(TEXTS * 5)
    everywhere, here = time.process_time() - everywhere, time.thread_time() - here
    assert everywhere < 1.2 * here + 0.01


def test_memory_does_not_grow_with_the_number_of_lengths_seen(shipped_encoder, peak_megabytes):
    lengths = [*range(1, 255, 2)]
    random.Random(0).shuffle(lengths)
    shipped_encoder.encode(["word " * 254])
    texts = ["word " * length for length in lengths]
    assert peak_megabytes(lambda: shipped_encoder.encode(texts)) < 25


def test_a_transformer_with_a_smaller_vocabulary_than_its_tokenizer_is_refused(altered_encoder):
    content = json.loads((DEFAULT_ENCODER / TOKENIZER_FILE).read_text("utf-8"))
    content["model"]["vocab"]["zzzz"] = 40_000
    directory = altered_encoder(files={TOKENIZER_FILE: json.dumps(content)})
    with pytest.raises(
        CorruptArtefactError, match="encoder cannot embed the tokens 40000 to 40000"
    ):
        OnnxEncoder.load(directory)


def not_finite(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda table: np.where(np.arange(len(table))[:, np.newaxis] == 29_999, value, table)


@pytest.mark.parametrize(
    ("part", "change", "problem"),
    [
        ("vectors_rows", lambda rows: rows[:20_000], "cannot embed the tokens 19968 to 20223 of"),
        ("vectors_scales", lambda all_: all_[:20_000], "cannot embed the tokens 19968 to 20223 of"),
        ("vectors_rows", lambda rows: rows[:, :256], r"shape \(256,\), but its manifest says 384"),
        ("vectors_scales", not_finite(np.nan), "not finite for the tokens 29952 to 30207 of its"),
        ("vectors_scales", not_finite(np.inf), "not finite for the tokens 29952 to 30207 of its"),
        ("vectors_rows", lambda rows: rows[::-1], "does not give its canonical embeddings"),
    ],
)
def test_a_damaged_look_up_table_is_refused(tmp_path, part, change, problem):
    directory = tmp_path / "encoder"
    shutil.copytree(LOOKUP_QUERY_ENCODER, directory)
    model = onnx.load(directory / MODEL_FILES["int8"])
    (table,) = (each for each in model.graph.initializer if each.name == part)
    values = to_array(table)
    table.CopyFrom(from_array(np.ascontiguousarray(change(values), values.dtype), part))
    onnx.save(model, directory / MODEL_FILES["int8"])
    manifest = read_manifest(directory)
    files = describe_files(directory, [*manifest.files])
    write_manifest(directory, replace(manifest, files=files, format_version=FORMAT_VERSION))
    with pytest.raises(CorruptArtefactError, match=problem):
        OnnxEncoder.load(directory)


@pytest.mark.parametrize("drift", ["turned", "not a number", "swapped"])
def test_an_encoder_with_drifting_canonical_embeddings_is_refused(altered_encoder, drift):
    content = canonical()
    for embeddings in content["embeddings"].values():
        if drift == "turned":
            embeddings[1][:100] = [-value for value in embeddings[1][:100]]
        elif drift == "swapped":
            embeddings[1], embeddings[2] = embeddings[2], embeddings[1]
        else:
            embeddings[1][0] = float("nan")
    directory = altered_encoder(files={CANONICAL_FILE: json.dumps(content)})
    with pytest.raises(
        CorruptArtefactError,
        match=r"encoder does not give its canonical embeddings .*: text 1 has cosine .*at least 0",
    ):
        OnnxEncoder.load(directory)
    (directory / CANONICAL_FILE).unlink()
    OnnxEncoder.load(directory, verify=False)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[]", "is not a list of canonical texts"),
        ("{", "is not a list of canonical texts"),
        ("[" * 100_000, "is not a list of canonical texts"),
        ('{"texts": ["a"], "embeddings": {}}', "is not a list of canonical texts"),
        (
            '{"texts": ["a"], "embeddings": {"fp32": [[1], [1, 2]], "int8": [[1], [1, 2]]}}',
            "not a list",
        ),
        (
            '{"texts": ["a"], "embeddings": {"fp32": [[1]], "int8": [[1]]}}',
            r"shape \(1, 1\), but \(1, ",
        ),
    ],
)
def test_canonical_texts_of_another_form_are_refused(altered_encoder, content, problem):
    with pytest.raises(CorruptArtefactError, match=rf"canonical\.json .*{problem}"):
        OnnxEncoder.load(altered_encoder(files={CANONICAL_FILE: content}))


@pytest.mark.parametrize("name", [MODEL_FILES["int8"], TOKENIZER_FILE])
def test_a_model_or_tokenizer_that_cannot_be_read_is_refused_by_name(altered_encoder, name):
    with pytest.raises(CorruptArtefactError, match=rf"encoder/{name} is not a usable "):
        OnnxEncoder.load(altered_encoder(files={name: "not a model"}))


def test_a_precision_that_an_encoder_does_not_have_is_refused(altered_encoder):
    directory = altered_encoder(without={MODEL_FILES["fp32"]})
    assert OnnxEncoder.load(directory).precision == "int8"
    with pytest.raises(InvalidArgumentError, match=r"encoder has no fp32 model; it has int8$"):
        OnnxEncoder.load(directory, precision="fp32")


def test_an_encoder_without_a_model_is_refused(altered_encoder):
    with pytest.raises(ManifestError, match=r"encoder lists no model file$"):
        OnnxEncoder.load(altered_encoder(without=MODEL_FILES.values()))


def test_the_precision_that_a_manifest_names_is_the_default(altered_encoder):
    details = dict(read_manifest(DEFAULT_ENCODER).details)
    # Of before there was a choice: int8 where there is one.
    assert "default_precision" not in details
    assert OnnxEncoder.load(DEFAULT_ENCODER).precision == "int8"
    static = MODEL_FILES["int8_static"]
    directory = altered_encoder(details={**details, "default_precision": "int8_static"})
    (directory / static).symlink_to(DEFAULT_ENCODER / MODEL_FILES["int8"])
    files = describe_files(directory, [*read_manifest(directory).files, static])
    write_manifest(directory, replace(read_manifest(directory), files=files))
    assert OnnxEncoder.load(directory, verify=False).precision == "int8_static"
    assert OnnxEncoder.load(directory, precision="int8").precision == "int8"


@pytest.mark.parametrize("named", ["fp32", "int4"])
def test_a_default_precision_that_is_not_there_is_refused(altered_encoder, named):
    details = {**read_manifest(DEFAULT_ENCODER).details, "default_precision": named}
    directory = altered_encoder(details=details)
    with pytest.raises(
        ManifestError,
        match=rf"names {re.escape(repr(named))} as its default precision, but has int8$",
    ):
        OnnxEncoder.load(directory)
    assert OnnxEncoder.load(directory, precision="int8").precision == "int8"


def test_more_threads_share_the_work_and_give_the_same_embeddings(shipped_encoder):
    threaded = OnnxEncoder.load(DEFAULT_ENCODER, threads=2)
    everywhere, here = time.process_time(), time.thread_time()
    embeddings = threaded.encode(TEXTS * 5)
    everywhere, here = time.process_time() - everywhere, time.thread_time() - here
    assert everywhere > 1.2 * here
    np.testing.assert_allclose(embeddings[: len(TEXTS)], shipped_encoder.encode(TEXTS), atol=1e-5)
