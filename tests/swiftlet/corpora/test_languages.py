import pytest

from swiftlet.corpora.languages import Languages, language_of
from swiftlet.types import Document

TEXTS = {
    "de": "Das Programm korrigiert bei der Eingabe viele häufige Tippfehler von selbst.",
    "en": "The program corrects many common typing errors while you are entering a text.",
    "fr": "Le programme corrige de lui-même de nombreuses fautes de frappe pendant la saisie.",
    "ja": "このプログラムは入力中によくある入力ミスを自動的に修正します。",
    "ru": "Программа сама исправляет многие частые опечатки во время ввода текста.",
    "zh": "该程序会在输入时自动更正许多常见的键入错误。",
}


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_of_a_sentence_is_recognised(language):
    assert language_of(TEXTS[language]) == language


@pytest.mark.parametrize("text", ["", "42", "OK", "x = y + 1"])
def test_a_text_that_may_be_in_any_language_has_none(text):
    assert not language_of(text)
    assert language_of(text, ["de", "en"]) in {"de", "en"}


def test_the_shares_of_languages_are_of_all_documents_and_believe_a_field():
    texts = [*[TEXTS["en"]] * 28, *[TEXTS["de"]] * 2, TEXTS["fr"], "42", "OK"]
    documents = [Document(f"{number}", text) for number, text in enumerate(texts)]
    documents.append(Document("named", TEXTS["en"], metadata={"language": "fi"}))
    documents.append(Document("misnamed", TEXTS["en"], metadata={"language": "COBOL"}))
    languages = Languages()
    assert [*languages.counted(documents)] == documents
    assert languages.shares() == {"en": 0.8286, "de": 0.0571, "fr": 0.0286, "fi": 0.0286}
    assert languages.main() == ["en", "de"]
    assert languages.share_beside("en") == pytest.approx(0.1143)
    assert languages.sentence({"en": "english", "de": "german"}) == (
        "29 of 35 documents are English, 2 are German, 1 is in fr, 1 is in fi; "
        "the language of 2 is not known"
    )
