"""The demo's corpus, as it ships."""

import pytest

from swiftlet.demo import FACETS, read_standard_library
from swiftlet.types import Document


@pytest.fixture(scope="module")
def library() -> dict[str, Document]:
    return {document.document_id: document for document in read_standard_library()}


def sections(document: Document) -> list[str]:
    return [document.text[start:end] for start, end, _ in document.sections]


def test_a_module_is_a_document_with_a_section_for_each_definition(library):
    json = library["json"]
    assert json.title.startswith("json — JSON (JavaScript Object Notation)")
    assert json.metadata == {
        "source": "json/__init__.py", "python": "3.11", "language": "Python", "package": "json",
    }  # fmt: skip
    texts = sections(json)
    assert texts[0].startswith("JSON (JavaScript Object Notation)")
    assert any(text.startswith("json.dumps(obj, *, skipkeys=False, ") for text in texts)


def test_its_sections_are_the_whole_text_in_order(library):
    assert len(library) == 332
    for document in library.values():
        assert "\n\n".join(sections(document)) == document.text
        assert all(text.strip() for text in sections(document))


def test_a_facet_has_some_of_the_documents(library):
    for field in FACETS:
        assert any(field in document.metadata for document in library.values())
