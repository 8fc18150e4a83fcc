import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest

from swiftlet.deadline import due_at
from swiftlet.errors import InvalidArgumentError, ServiceError
from swiftlet.progress import Silence
from swiftlet.relevance.judgements import Judgements, append_judgements, read_judgements
from swiftlet.relevance.language_model import ChatAddress, pre_judge
from tests.command_line import swiftlet
from tests.embeddings_server import ChatServer, answer, answering, half
from tests.swiftlet.relevance.test_judgements import judged, make_pool, pair

NUM = 60


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with answering(ChatServer) as server:
        server.change = lambda text: "2"
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_pool(tmp_path, NUM)
    return tmp_path


def ask(server: ChatServer, folder: Path) -> int:
    return pre_judge(folder, ChatAddress.parse(server.address), Silence())


def read(folder: Path) -> Judgements:
    return read_judgements(folder, [pair(number) for number in range(NUM)])


def test_a_model_judges_each_document_once_under_its_own_name(
    server: ChatServer, folder: Path
) -> None:
    assert ask(server, folder) == 0
    assert read(folder).of("llm:small") == {pair(number): 2 for number in range(NUM)}
    assert len(server.asked) == NUM
    asked = server.asked[0]
    assert asked["path"] == "/v1/chat/completions"
    assert (asked["model"], asked["temperature"]) == ("small", 0)
    system, user = asked["messages"]
    assert "3: exactly this" in system["content"]
    assert user["content"] == "The search: a query\t\n\nThe document:\nA passage."
    ask(server, folder)
    assert len(server.asked) == NUM


@pytest.mark.parametrize(
    "said", ["2", " 2.\n", '{"grade": 2}', "<think>Is it 0 or 3?</think>\nGrade: 2", "2 (2)"]
)
def test_a_grade_is_found_in_what_a_model_says(server: ChatServer, folder: Path, said: str) -> None:
    server.change = lambda text: said
    assert ask(server, folder) == 0
    assert {*read(folder).of("llm:small").values()} == {2}


@pytest.mark.parametrize("said", ["It is good.", "4", "-1 or 2", "20", "", None, "²"])
def test_a_model_that_gives_no_grade_is_refused_after_a_few_answers(
    server: ChatServer, folder: Path, said: str | None
) -> None:
    server.change = lambda text: said
    with pytest.raises(ServiceError, match=r"answers .*, but a grade from 0 to 3 is expected"):
        ask(server, folder)
    assert len(server.asked) == 4
    assert read(folder).grades == {}


def test_answers_without_a_grade_in_between_are_counted_and_asked_for_again_later(
    server: ChatServer, folder: Path
) -> None:
    said = iter([*["1"] * 10, "no idea", *["1"] * NUM])
    server.change = lambda text: next(said)
    assert ask(server, folder) == 1
    assert len(read(folder).of("llm:small")) == NUM - 1
    assert ask(server, folder) == 0
    assert len(read(folder).of("llm:small")) == NUM


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (answer(200, "<html>", "text/html"), "'text/html' that has no message .*/chat/completions"),
        (answer(200, '{"choices": []}'), "that has no message of a model"),
        (answer(200, "[" * 100_000), "that has no message of a model"),
        (answer(401, '{"error": "no key"}'), "401: 'no key'; set SWIFTLET_LLM_KEY to its key"),
        (answer(404, '{"error": "no model"}'), "404: 'no model'; .*was asked: is it the address"),
        (answer(400, '{"error": "too long"}'), "the language model http.* answers 400: 'too long'"),
    ],
)
def test_a_bad_answer_ends_in_one_sentence_and_keeps_what_was_judged(
    server: ChatServer, folder: Path, fault: object, sentence: str
) -> None:
    before = 20

    def change(text: str) -> str:
        if len(server.asked) >= before:
            server.faults = [fault] * 100  # type: ignore[list-item]
        return "1"

    server.change = change
    with pytest.raises(ServiceError, match=sentence) as refused:
        ask(server, folder)
    assert "\n" not in f"{refused.value}"
    kept = len(read(folder).of("llm:small"))
    assert before - 4 <= kept <= before
    server.faults, server.change = [], lambda text: "3"
    assert ask(server, folder) == 0
    assert [*read(folder).of("llm:small").values()].count(1) == kept


def test_a_busy_model_is_asked_again_when_it_says(server: ChatServer, folder: Path) -> None:
    faults = [[answer(429, '{"error": "slow down"}', Retry_After=1), half]]

    def change(text: str) -> str:
        if len(server.asked) > 20 and faults:
            server.faults = faults.pop()
        return "2"

    server.change = change
    began = perf_counter()
    assert ask(server, folder) == 0
    assert perf_counter() - began > 1
    assert len(server.asked) == NUM + 2


def test_a_model_that_stays_busy_is_left_at_the_deadline(server: ChatServer, folder: Path) -> None:
    server.faults = [answer(429, "{}", Retry_After=1_000)] * 10
    with pytest.raises(ServiceError, match=r"429.*no time left"), due_at(perf_counter() + 2):
        ask(server, folder)


def test_a_model_that_takes_no_temperature_is_asked_without_one(
    server: ChatServer, tmp_path: Path
) -> None:
    make_pool(tmp_path, 5)
    append_judgements(tmp_path, [judged(number, 1, "llm:small") for number in range(4)])
    refusal = json.dumps({"error": {"message": "temperature: only 1 is supported"}})
    server.faults = [answer(400, refusal)]
    assert ask(server, tmp_path) == 0
    assert ["temperature" in each for each in server.asked] == [True, False]
    assert read(tmp_path).of("llm:small")[pair(4)] == 2


def test_the_key_goes_to_the_address_and_is_shown_nowhere(
    server: ChatServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWIFTLET_LLM_KEY", "a-secret")
    server.faults = [answer(403, '{"error": "a-secret is no key"}')] * 4
    refused = swiftlet("judge", folder, "--llm", server.address)
    assert server.asked[0]["headers"]["Authorization"] == "Bearer a-secret"
    assert refused.exit_code == 2
    assert "since the one in SWIFTLET_LLM_KEY is not it" in refused.stderr
    assert "a-secret" not in refused.stderr


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("small", "the language model is 'small', but an address such as http"),
        ("http://host/v1", "the address of the language model, 'http://host/v1', names no model"),
        ("http://host/v1?model=a&top_p=1", "the option 'top_p', but model is expected, and the ke"),
        ("http://me:secret@host/v1?model=a", "set SWIFTLET_LLM_KEY to its key instead"),
    ],
)
def test_a_bad_address_is_one_sentence(address: str, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence) as refused:
        ChatAddress.parse(address)
    assert "secret" not in f"{refused.value}"


def test_the_command_says_how_far_a_model_agrees_with_people(
    server: ChatServer, folder: Path
) -> None:
    append_judgements(folder, [judged(number, number % 4) for number in range(50)])
    server.change = lambda text: "3"
    said = swiftlet("judge", folder, "--llm", server.address)
    assert said.exit_code == 0, said.output
    assert "llm:small and people have κ 0.00, but at least 0.4" in " ".join(said.stderr.split())
    assert len((folder / "qrels" / "test.tsv").read_text().splitlines()) == 51
