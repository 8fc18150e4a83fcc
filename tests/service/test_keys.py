"""Keys of a file: what they open, what they hide, and how much they may ask."""

import asyncio
import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swiftlet
from service.wire.keys import ApiKey
from service.wire.rights import KeyFile, Right, add_key
from swiftlet.encoders import DEFAULT_QUERY_ENCODER
from swiftlet.errors import InvalidArgumentError
from swiftlet.search.searcher import Searcher
from tests.command_line import swiftlet as run
from tests.polling import wait_until
from tests.service.conftest import running

SHOWN = [
    {"_id": "bread", "text": "Bread is baked from flour.", "tenant": "a", "year": 2020,
     "size": 20, "day": "2026-01-01T09:00:00Z"},
    {"_id": "tea", "text": "Tea is a hot drink.", "tenant": "a", "year": 2021,
     "size": 100, "day": "2026-01-01T10:00:00+09:00"},
    {"_id": "tin", "text": "Tin is a soft metal.", "tenant": "a", "year": 2022,
     "size": 3, "day": "2026-01-01T11:00:00+09:00"},
]  # fmt: skip
HIDDEN = [
    {"_id": "xyzzy-1", "text": "Quuxite bread with flour.", "tenant": "b", "year": 2021,
     "size": "large", "day": "unknown", "secret": 1},
    {"_id": "xyzzy-2", "title": "Quuxite", "text": "Quuxite is hot.", "tenant": "b", "year": 1987},
]  # fmt: skip
MARKS = re.compile("xyzzy|quuxite|1987", re.IGNORECASE)
OPEN = ["/search", "/search/batch", "/facets", "/documents/{document_id}", "/v1/embeddings"]
CLOSED = ["/info", "/suggest?q=b", "/weak", "/files/xyzzy-1"]


def write(path: Path, *lines: dict[str, Any]) -> None:
    """Replace a file of keys, as an editor does."""
    path.with_suffix(".new").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    path.with_suffix(".new").replace(path)


def line(key: str, **fields: Any) -> dict[str, Any]:
    return {"name": key, "sha256": sha256(key.encode()).hexdigest(), **fields}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def searchers(tmp_path_factory) -> Any:
    """An index with hidden documents, and one without."""
    folder = tmp_path_factory.mktemp("tenants")
    opened = []
    for name, rows in (("both", SHOWN + HIDDEN), ("shown", SHOWN)):
        swiftlet.build(rows, folder / name, facets=["tenant", "year"])
        opened.append(Searcher.open(folder / name, DEFAULT_QUERY_ENCODER))
    yield opened
    for each in opened:
        each.close()


@pytest.fixture
def with_keys(make_application, tmp_path, small_searcher) -> Any:
    """Makes an application with the keys of these lines."""

    def make(*lines: dict[str, Any], searcher: Searcher = small_searcher, **parts: Any) -> Any:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        write(path, *lines)
        keys: dict[str, ApiKey] = {}
        rights: tuple[Right, ...] = ("search", "admin")
        for right in rights:
            variable = f"SWIFTLET_{right.upper()}_KEYS"
            keys[f"{right}_key"] = ApiKey([], variable=variable, right=right, file=KeyFile(path))
        return make_application(searcher, **keys, load=lambda: small_searcher, **parts)

    return make


def test_a_key_opens_the_routes_of_its_rights_alone(with_keys):
    application = with_keys(line("reader"), line("chief", rights=["admin", "search"]))
    assert application.ask("GET", "/search?q=tea").status_code == 401
    for key, path, status in [
        ("reader", "/search?q=tea", 200),
        ("reader", "/info", 200),
        ("chief", "/search?q=tea", 200),
        ("nobody", "/search?q=tea", 403),
    ]:
        assert application.ask("GET", path, headers=bearer(key)).status_code == status
    refused = application.ask("POST", "/admin/reload", headers=bearer("reader"))
    assert refused.status_code == 403
    assert refused.json()["detail"] == "the key 'reader' has no right \"admin\""


def test_a_key_opens_nothing_once_it_has_expired(with_keys):
    now = datetime.now(UTC)
    application = with_keys(
        line("old", expires=f"{(now - timedelta(days=1)).date()}"),
        line("new", expires=(now + timedelta(days=1)).isoformat()),
    )
    assert application.ask("GET", "/info", headers=bearer("new")).status_code == 200
    refused = application.ask("GET", "/info", headers=bearer("old"))
    assert refused.status_code == 403
    assert "the key 'old' has expired" in refused.json()["detail"]


def test_a_key_that_has_asked_enough_waits_as_long_as_the_answer_says(with_keys):
    application = with_keys(
        line("slow", requests_per_minute=2), line("thin", bytes_per_minute=100), line("free")
    )
    answers = [application.ask("POST", "/search", json={"query": "tea"}, headers=bearer("slow"))]
    answers += [application.ask("GET", "/info", headers=bearer("slow")) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert answers[2].json()["type"] == "/docs#busy-key"
    assert "requests_per_minute of the key 'slow' is 2: try again in" in answers[2].json()["detail"]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    first, second = (application.ask("GET", "/info", headers=bearer("thin")) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 429)
    assert int(second.headers["retry-after"]) >= 60 * (len(first.content) - 100) / 100 - 5
    body = {"query": "tea " * 500}
    other = with_keys(line("thin", bytes_per_minute=2_000))
    assert other.ask("POST", "/search", json=body, headers=bearer("thin")).status_code == 200
    assert other.ask("GET", "/info", headers=bearer("thin")).status_code == 429
    for _ in range(5):
        assert application.ask("GET", "/info", headers=bearer("free")).status_code == 200


def ask(application: Any, path: str, body: Any = None, key: str = "a") -> Any:
    method = "GET" if body is None else "POST"
    return application.ask(method, path, json=body, headers=bearer(key))


def test_what_the_filter_of_a_key_hides_is_on_no_route(with_keys, searchers):
    application = with_keys(line("a", filter={"tenant": "a"}), searcher=searchers[0])
    answers = [
        ask(application, "/search", {"query": "bread", "top_k": 9}),
        ask(application, "/search?q=bread"),
        ask(application, "/search", {"query": "bread", "filter": {"year": 2021}}),
        ask(application, "/search", {"query": "bread", "filter": {"not": {"tenant": "a"}}}),
        ask(application, "/search", {"query": "bread", "group_by": "year", "group_size": 3}),
        ask(application, "/search", {"query": "bread", "format": "context"}),
        ask(application, "/search/batch", {"queries": ["bread", "hot"], "top_k": 9}),
        ask(application, "/facets"),
        ask(application, "/facets?filter=%7B%22year%22:2021%7D"),
        ask(application, "/v1/models"),
        *(ask(application, f"/documents/{each['_id']}") for each in SHOWN),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert not MARKS.search(answer.text), answer.text
    assert len(answers[0].json()["hits"]) == len(SHOWN)
    assert [each["document_id"] for each in answers[2].json()["hits"]] == ["tea"]
    assert answers[3].json()["hits"] == []
    assert answers[7].json()["facets"]["tenant"] == [{"value": "a", "count": 3}]
    for name in ("xyzzy-1", "absent"):
        unknown = ask(application, f"/documents/{name}")
        assert unknown.status_code == 404
        assert unknown.json()["detail"] == f"no document has the id '{name}'"
        assert float(unknown.headers["server-timing"].partition("dur=")[2]) >= 100


def test_a_key_with_a_filter_is_refused_where_no_filter_is_heeded(with_keys, searchers, tmp_path):
    locked = with_keys(line("a", filter={"tenant": "a"}), searcher=searchers[0], files=tmp_path)
    paths = [route for route in locked.app.openapi()["paths"] if "admin" not in route]
    refused = {path for path in paths if ask(locked, path).status_code == 403}
    answered = {path for path in paths if ask(locked, path).status_code != 403}
    assert {"/info", "/suggest", "/weak", "/files/{document_id}"} <= refused
    assert answered - refused <= {
        *OPEN, "/v1/models", "/rerank", "/health/live", "/health/ready", "/metrics",
        "/openapi.json", "/docs",
    }  # fmt: skip
    for path in CLOSED:
        answer = ask(locked, path)
        assert answer.status_code == 403
        assert not MARKS.search(answer.text)


def test_refusals_name_no_field_of_hidden_documents(with_keys, searchers):
    filters = {"a": {"tenant": "a"}, "b": {"gone": 1}}
    application = with_keys(
        *(line(name, filter=each) for name, each in filters.items()), searcher=searchers[0]
    )
    fields = [
        {"filter": {"absent": 1}},
        {"filter": {"year": "text"}},
        {"boost": {"field": "absent", "weight": 0.1, "half_value": 3}},
        {"group_by": "absent"},
    ]
    for each in fields:
        answer = ask(application, "/search", {"query": "bread", **each})
        assert answer.status_code == 422
        assert "tenant" not in answer.json()["detail"]
        assert "number" not in answer.json()["detail"]
    for path in ("/search?q=bread", "/facets"):
        vanished = ask(application, path, key="b")
        assert vanished.status_code == 422
        assert vanished.json()["detail"].startswith("the filter of the key 'b' names 'gone', but")


def test_queries_of_a_key_with_a_filter_leave_no_trace_in_the_cache(with_keys, searchers):
    application = with_keys(
        line("a", filter={"tenant": "a"}), line("all"), searcher=searchers[0], cache_bytes=10**6
    )
    assert ask(application, "/search?q=bread").status_code == 200
    assert len(application.state.loaded.cache) == 0
    assert ask(application, "/search?q=bread", key="all").status_code == 200
    assert len(application.state.loaded.cache) == 1


def test_a_sort_by_a_field_tells_nothing_of_hidden_documents(with_keys, searchers):
    key = line("a", filter={"tenant": "a"})
    locked, alone = (with_keys(key, line("all"), searcher=each) for each in searchers)
    for sort, ids in {
        "year:desc": ["tin", "tea", "bread"],
        "size:asc": ["tin", "bread", "tea"],  # numbers, while a hidden document has a text
        "day:asc": ["tea", "tin", "bread"],  # dates, while a hidden document has none
    }.items():
        asked = {"query": "bread", "sort": sort, "min_score": -1}
        found = [ask(each, "/search", asked).json()["hits"] for each in (locked, alone)]
        assert [[hit["document_id"] for hit in each] for each in found] == [ids, ids]
    refused = ask(locked, "/search", {"query": "bread", "sort": "size:asc"}, key="all")
    assert "its values are numbers and texts" in refused.json()["detail"]
    of_hidden, of_none = (
        ask(locked, "/search", {"query": "bread", "sort": f"{name}:asc"}).json()
        for name in ("secret", "absent")
    )
    assert of_hidden["detail"].replace("secret", "absent") == of_none["detail"]
    assert "tenant" not in of_none["detail"]


WORDS = st.lists(st.sampled_from(["bread", "hot", "quuxite", "metal", "1987"]), min_size=1)
CONDITIONS = st.sampled_from(
    [{"tenant": "b"}, {"tenant": "a"}, {"year": 1987}, {"year": {"gte": 2021}}]
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        inner.map(lambda each: {"not": each}),
        *(
            st.lists(inner, min_size=1, max_size=3).map(lambda e, n=n: {n: e})
            for n in ("and", "or")
        ),
    ),
    max_leaves=4,
)
SEARCHES = st.fixed_dictionaries(
    {"query": WORDS.map(" ".join), "mode": st.sampled_from(["hybrid", "dense", "lexical"])},
    optional={
        "filter": FILTERS,
        "group_by": st.sampled_from(["tenant", "year"]),
        "highlight": st.sampled_from(["words", "sentence"]),
        "fusion": st.just("rrf"),
    },
)


def without_scores(answer: Any) -> Any:
    """An answer with its documents in the order of their ids, since words weigh by their number."""
    found = answer.json()
    for each in [found, *found.get("groups", [])]:
        hits = each.get("hits", [])
        hits.sort(key=lambda hit: hit["document_id"])
        for hit in hits:
            del hit["score"]
    if "groups" in found:
        del found["hits"]  # the best one of each group
        found["groups"].sort(key=lambda group: f"{group['value']}")
    for name in ("index", "request_id", "next"):
        found.pop(name, None)
    return answer.status_code, found


def test_answers_are_those_of_an_index_without_the_hidden_documents(with_keys, searchers):
    key = line("a", filter={"tenant": "a"})
    applications = [with_keys(key, searcher=each) for each in searchers]

    @settings(max_examples=60, deadline=None)
    @given(search=SEARCHES)
    def check(search: dict[str, Any]) -> None:
        found = [without_scores(ask(each, "/search", search)) for each in applications]
        assert found[0] == found[1]

    check()


def test_a_file_that_changes_is_read_again_and_a_wrong_one_changes_nothing(with_keys, tmp_path):
    application = with_keys(line("first"))
    (path,) = tmp_path.glob("*.jsonl")

    def status(key: str) -> int:
        return ask(application, "/info", key=key).status_code

    assert (status("first"), status("second")) == (200, 403)
    write(path, line("second"))
    wait_until(lambda: (status("first"), status("second")) == (403, 200))
    path.write_text("{")
    before = time.monotonic()
    wait_until(lambda: time.monotonic() > before + 1.1)  # the file is looked at once a second
    assert status("second") == 200
    path.unlink()
    wait_until(lambda: time.monotonic() > before + 2.2)
    assert status("second") == 200
    write(path, line("first"))
    wait_until(lambda: (status("first"), status("second")) == (200, 403))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("{", "line 1: Invalid JSON"),
        ("[]", "line 1: Input should be an object"),
        ("{}", "line 1: name is missing"),
        (json.dumps(line("")), "line 1: name is '', but a text of 1 to 100 characters is expected"),
        (
            json.dumps(line("a", sha256="12")),
            "sha256 is '12', but 64 hexadecimal digits",
        ),
        (json.dumps(line("a", right="search")), "line 1: 'right' is no field of a key; the fields"),
        (json.dumps(line("a", rights=[])), "rights is [], but a list of search, write and admin"),
        (json.dumps(line("a", rights=["read"])), "rights is 'read', but a list of search, write"),
        (json.dumps(line("a", indexes=[""])), "line 1: indexes is '', but a list of names"),
        (json.dumps(line("a", filter=3)), "line 1: the filter has 3 where an object"),
        (json.dumps(line("a", filter=None)), "line 1: the filter has null where an object"),
        (json.dumps(line("a", filter={"a": 1}, rights=["write"])), 'has the right "search" alone'),
        (json.dumps(line("a", requests_per_minute=0)), "requests_per_minute is 0, but a whole"),
        (json.dumps(line("a", bytes_per_minute=True)), "bytes_per_minute is true, but a whole"),
        (json.dumps(line("a", expires="tomorrow")), "expires is 'tomorrow', but a date or time"),
        ("\n".join([json.dumps(line("a"))] * 2), "line 2: 'a' has the same sha256 as 'a'"),
        ("\udcff", "line 1: Invalid JSON"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, written, sentence):
    path = tmp_path / "keys.jsonl"
    path.write_text(written, errors="surrogateescape")
    with pytest.raises(InvalidArgumentError) as caught:
        KeyFile(path)
    assert f"{path}" in f"{caught.value}"
    assert sentence in f"{caught.value}"
    with pytest.raises(InvalidArgumentError):
        add_key(path, "new")
    assert path.read_text(errors="surrogateescape") == written


def test_what_is_no_file_of_keys_names_the_command_that_makes_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("absent", "pipe", "."):
        with pytest.raises(InvalidArgumentError, match="is no file of keys: swiftlet key"):
            KeyFile(tmp_path / name)


def test_a_key_that_opens_nothing_is_not_made(tmp_path):
    path = tmp_path / "keys.jsonl"
    for wrong in ({"expires": "2020-01-01"}, {"rights": ["read"]}, {"indexes": [""]}):
        with pytest.raises(InvalidArgumentError):
            add_key(path, "new", **wrong)
    assert not path.exists()


def test_what_a_key_has_used_stays_with_it_where_the_file_changes(with_keys, tmp_path):
    lines = [line("greedy", requests_per_minute=1), line("quiet", requests_per_minute=1)]
    application = with_keys(*lines)
    (path,) = tmp_path.glob("*.jsonl")
    assert ask(application, "/info", key="greedy").status_code == 200
    write(path, line("other"), *reversed(lines))
    wait_until(lambda: ask(application, "/info", key="other").status_code == 200)
    assert ask(application, "/info", key="greedy").status_code == 429
    assert ask(application, "/info", key="quiet").status_code == 200


def test_ten_thousand_keys_are_found(tmp_path):
    path = tmp_path / "keys.jsonl"
    write(path, *(line(f"{each}", filter={"tenant": each}) for each in range(10_000)))
    keys = KeyFile(path)
    found = asyncio.run(keys.find(sha256(b"9999").digest()))
    assert found is not None
    assert found.key.name == "9999"
    assert not keys.grants("write")


@pytest.mark.check
def test_the_command_makes_keys_that_a_service_of_several_processes_takes(tmp_path):
    indexes, path = tmp_path / "indexes", tmp_path / "keys.jsonl"
    for name, rows in (("own", SHOWN), ("other", HIDDEN)):
        swiftlet.build(rows, indexes / name)
    names = {"--index": "own", "--requests-per-minute": "5", "--expires": "2999-01-01"}
    given = ["key", path, "--name", "shop", "--filter", "tenant=a"]
    made = run(*given, *(part for pair in names.items() for part in pair))
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(path.read_text().strip())  # as editors may leave it
    writer = run("key", path, "--name", "chief", "--right", "write").stdout.strip()
    options = {"indexes": indexes, "keys": path, "workers": 2, "encoder": DEFAULT_QUERY_ENCODER}
    with running(indexes / "own", **options) as server, server.client() as client:
        client.headers.update({**bearer(secret), "Connection": "close"})
        assert client.get("/indexes").json() == {"indexes": ["own"]}
        found = client.get("/indexes/own/search?q=bread").json()["hits"]
        assert found[0]["document_id"] == "bread"
        for name in ("other", "absent"):
            assert client.get(f"/indexes/{name}/search?q=bread").status_code == 403
        assert client.get("/search?q=bread").status_code == 403
        began = time.monotonic()
        statuses = [client.get("/indexes/own/search?q=bread").status_code for _ in range(20)]
        elapsed = time.monotonic() - began
        assert 1 <= statuses.count(200) <= 3 + elapsed / 12
        assert set(statuses) == {200, 429}
        client.headers.update(bearer(writer))
        put = client.put("/documents", json={"documents": [SHOWN[0]]})
        assert put.status_code == 200, put.text
    assert secret not in "".join(server.log)
