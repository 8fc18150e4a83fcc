"""What a search found, as a text for a language model."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import swiftlet
from swiftlet.corpora.collections import read_documents
from swiftlet.errors import InvalidArgumentError, UnknownDocumentError
from swiftlet.manifest import change_details
from swiftlet.search.context import grown, num_tokens, packed
from swiftlet.search.searcher import Searcher
from swiftlet.types import Context, Document, Section
from tests.growth import grows_evenly

TEXT = (
    "Install\n\nOpen the box. Lift the pump out with both hands. Close the box again.\n"
    "Place the pump on level ground. Fill it with water.\n\nCare\n\nOil it every month."
)
SECTIONS = Section(0, TEXT.index("Care"), "Install"), Section(TEXT.index("Care"), len(TEXT), "Care")
PUMP = Document("pump.md", TEXT, "The pump", sections=SECTIONS)


def span_of(part: str) -> tuple[int, int]:
    start = TEXT.index(part)
    return start, start + len(part)


def context_of(*parts: str, max_tokens: int = 500, document: Document = PUMP) -> Context:
    ranked = [(document.passage(n, *span_of(part)), 1 - n / 10) for n, part in enumerate(parts)]
    return packed(ranked, {document.document_id: document}.__getitem__, max_tokens)


def test_a_passage_is_grown_to_whole_sentences_and_is_cited():
    assert context_of("pump out with").text == (
        "[pump.md] The pump\nline 3, Install:\nLift the pump out with both hands."
    )


def test_the_lines_of_markdown_with_front_matter_are_those_of_its_file(tmp_path):
    (tmp_path / "a.md").write_text("---\nauthor: Ada\nfront_matter_lines: 9\n---\nBody\ntext.")
    (document,) = read_documents(tmp_path)
    found = packed([(document.passage(0, 0, 10), 1.0)], lambda _: document, 500)
    assert found.text == "[a.md] a\nline 5-6:\nBody\ntext."
    assert (found.excerpts[0].first_line, found.excerpts[0].last_line) == (5, 6)


def test_a_passage_does_not_grow_beyond_its_section():
    document = Document("a", "one two three four five", sections=(Section(0, 8), Section(8, 23)))
    assert grown(document, document.passage(0, 14, 18)) == (8, 23)


def test_neighbours_and_overlapping_passages_become_one_excerpt():
    found = context_of("Place the pump on", "Lift the", "pump out with both hands. Close the")
    (excerpt,) = found.excerpts
    assert excerpt.text.strip() == TEXT[TEXT.index("Lift") : TEXT.index(" Fill")]
    assert (excerpt.first_line, excerpt.last_line, excerpt.score) == (3, 4, 1.0)


def test_code_is_grown_to_whole_lines():
    code = "".join(f"    value_{number} = function({number})\n" for number in range(100))
    document = Document("code.py", code)
    start = code.index("_50")
    found, end = grown(document, document.passage(0, start, start + 40))
    assert code[found:end].splitlines() == code.splitlines()[50:52]


def test_excerpts_that_do_not_fit_are_left_out_and_the_best_one_is_cut():
    parts = "Fill it with", "every month", "Open the"
    whole = context_of(*parts)
    assert len(whole.excerpts) == 3
    assert whole.excerpts == sorted(whole.excerpts, key=lambda each: each.start)
    less = context_of(*parts, max_tokens=whole.num_tokens - 1)
    assert [each.heading for each in less.excerpts] == ["Install", "Care"]
    cut = context_of("Place the pump on level ground.", max_tokens=14)
    assert cut.text.endswith("Place the pump")
    assert cut.excerpts[0].text == TEXT[cut.excerpts[0].start : cut.excerpts[0].end]


def test_a_context_that_has_no_room_for_a_text_is_empty():
    assert all(
        context_of("pump out with", max_tokens=n) == Context("", [], 0) for n in range(1, 11)
    )
    assert context_of("pump out with", max_tokens=11).excerpts[0].text.strip() == "Lift"


def test_a_document_that_was_deleted_meanwhile_is_left_out():
    def read(name: str) -> Document:
        if name != PUMP.document_id:
            raise UnknownDocumentError(name)
        return PUMP

    gone = Document("gone", "Nobody reads this.")
    ranked = [(gone.passage(0, 0, 6), 0.9), (PUMP.passage(0, *span_of("Fill it")), 0.8)]
    assert [each.document_id for each in packed(ranked, read, 100).excerpts] == ["pump.md"]


texts = st.text("ab. \n\té。!", min_size=1, max_size=400)


@st.composite
def found_passages(draw: st.DrawFn) -> tuple[dict[str, Document], list]:
    documents = {f"{n}": Document(f"{n}", draw(texts), draw(texts)) for n in range(3)}
    ranked = []
    for number in range(draw(st.integers(1, 12))):
        document = documents[draw(st.sampled_from("012"))]
        start = draw(st.integers(0, len(document.text)))
        end = draw(st.integers(start, len(document.text)))
        ranked.append((document.passage(number, start, end), -number))
    return documents, ranked


@given(found_passages(), st.integers(1, 400))
def test_a_context_fits_repeats_nothing_and_cites_exactly(found, max_tokens):
    documents, ranked = found
    context = packed(ranked, documents.__getitem__, max_tokens)
    assert context == packed(ranked, documents.__getitem__, max_tokens)
    assert context.num_tokens == num_tokens(context.text) <= max_tokens
    assert context.excerpts or max_tokens <= 110  # a title of 400 bytes
    last = dict[str, int]()
    for each in context.excerpts:
        text = documents[each.document_id].text
        assert each.text == text[each.start : each.end]
        assert each.first_line == 1 + text.count("\n", 0, each.start)
        assert each.last_line <= 1 + text.count("\n", 0, each.end)
        assert each.start >= last.get(each.document_id, 0)
        last[each.document_id] = each.end


@given(found_passages())
def test_every_passage_is_in_a_context_that_has_room(found):
    documents, ranked = found
    context = packed(ranked, documents.__getitem__, 20_000)
    for passage, _ in ranked:
        whole = documents[passage.document_id].text[passage.start : passage.end]
        assert any(
            (each.start <= passage.start and passage.end <= each.end) or not whole.strip()
            for each in context.excerpts
            if each.document_id == passage.document_id
        )


def test_the_time_grows_with_the_text():
    def run(count: int) -> None:
        document = Document("long", "word " * 100 * count)
        ranked = [(document.passage(n, 500 * n, 500 * n + 300), 0.0) for n in range(count)]
        packed(ranked, {"long": document}.__getitem__, 100 * count)

    assert grows_evenly(run, 200)


@pytest.fixture(scope="module")
def searcher(tmp_path_factory) -> Iterator[Searcher]:
    documents = [
        {
            "id": f"{kind}-{n}",
            "title": kind,
            "kind": kind,
            "text": f"{kind.title()} {n} is here. " * 30,
        }
        for kind in ("volcano", "glacier")
        for n in range(4)
    ]
    out = tmp_path_factory.mktemp("context") / "index"
    swiftlet.build(documents, out)
    with swiftlet.open(out) as opened:
        yield opened


def test_a_searcher_answers_with_a_context(searcher):
    context = searcher.context("volcano 3", 200)
    assert context.document_ids[0] == "volcano-3"
    assert 100 < context.num_tokens <= 200
    assert f"{context}" == context.text
    only = searcher.context("volcano 3", 4_000, filter={"kind": "glacier"}, top_k=2)
    assert len(only.document_ids) == 2
    assert {each[:7] for each in only.document_ids} == {"glacier"}
    following = searcher.context("volcano 3", 4_000, filter={"kind": "glacier"}, offset=2)
    assert {*following.document_ids}.isdisjoint(only.document_ids)
    boost = {"filter": {"kind": "glacier"}, "weight": 1}
    assert searcher.context("volcano 3", 4_000, boost=boost).document_ids[0].startswith("glacier")
    assert searcher.search("volcano 3", format="context", max_tokens=200).hits == []
    assert searcher.context("nothing of it", mode="lexical").text == ""


def test_a_passage_of_a_better_document_comes_before_a_slightly_better_passage(tmp_path):
    parts = "Valve, gasket and seal of the pump.", "The bolts of the valve are loose again today."
    text = "\n".join(parts)
    sections = Section(0, len(parts[0]), "Parts"), Section(len(parts[0]), len(text), "News")
    documents = [
        Document("manual", text, sections=sections),
        Document("letter", "The valve and the bolts arrived, and the bolts fit well."),
        *(Document(f"{n}", f"Nothing of it: number {n}.") for n in range(20)),
    ]
    swiftlet.build(documents, tmp_path / "index")
    with swiftlet.open(tmp_path / "index") as searcher:
        found = searcher.context("valve gasket seal pump bolts", mode="lexical").excerpts
        less = searcher.context("valve gasket seal pump bolts", 40, mode="lexical")
    assert [each.document_id for each in found] == ["manual", "manual", "letter"]
    assert found[2].score > found[1].score
    assert [each.document_id for each in less.excerpts] == ["manual", "manual"]


def test_words_weigh_more_in_a_context_unless_a_weight_is_given(searcher, tmp_path):
    def best(**options: object) -> float:
        return searcher.context("volcano 3", 4_000, **options).excerpts[0].score

    assert best() == best(weight=0.5) != best(weight=searcher.weight)
    copy = Path(shutil.copytree(searcher.place, tmp_path / "index"))
    change_details(copy, {"weight": 0.9})
    with swiftlet.open(copy) as tuned:
        of_index = tuned.context("volcano 3", 4_000).excerpts[0].score
    assert of_index == best(weight=0.9)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"max_tokens": 0}, "max_tokens is 0, but at least 1"),
        ({"max_tokens": 20_001}, "max_tokens is 20001, but 1 to 20,000 is expected"),
        ({"highlight": "words"}, 'format is "context", which takes no highlight'),
        ({"include_text": False}, "takes no include_text"),
        ({"group_by": "kind"}, "takes no group_by"),
    ],
)
def test_what_a_context_cannot_have_is_refused(searcher, options, complaint):
    with pytest.raises(InvalidArgumentError, match=complaint):
        searcher.context("ice", **options)
