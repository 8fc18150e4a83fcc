"""Keys, CORS and security headers."""

import re
from typing import Any

import pytest

from service.routes.page import PAGE_FILES
from service.wire.keys import ApiKey
from tests.service.test_openapi import SEARCHING

SEARCH, ADMIN = "a search key of the tests", "an admin key of the tests"
LOCKED = [(method.upper(), path) for method, path in [*SEARCHING, ("head", "/info")]]
OPEN = ["/health/live", "/health/ready", "/metrics", "/openapi.json", "/docs"]


@pytest.fixture
def locked(make_application, small_searcher) -> Any:
    return make_application(
        small_searcher,
        search_key=ApiKey([SEARCH, "another one"], variable="SWIFTLET_SEARCH_KEYS"),
        admin_key=ApiKey([ADMIN], variable="SWIFTLET_ADMIN_KEYS"),
        load=lambda: pytest.fail("nobody was allowed to"),
    )


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(("method", "path"), [*LOCKED, ("POST", "/admin/reload")])
def test_a_locked_route_answers_401_without_a_key_and_403_with_a_wrong_one(locked, method, path):
    nothing = [{}, *({"Authorization": given} for given in ("Basic YTpi", SEARCH, "Bearer "))]
    for headers in nothing:
        without = locked.ask(method, path, headers=headers)
        assert without.status_code == 401
        assert without.headers["www-authenticate"] == "Bearer"
    other = SEARCH if "admin" in path else ADMIN
    for key in ("no such key", other, SEARCH[:-1], "ä"):
        wrong = locked.ask(method, path, headers={b"Authorization": f"Bearer {key}".encode()})
        assert wrong.status_code == 403
        assert key not in wrong.text


def test_each_key_opens_only_its_own_routes(locked):
    for key in (SEARCH, "another one"):
        for headers in (bearer(key), {"authorization": f"bearer  {key} "}):
            assert locked.ask("GET", "/search?q=bread", headers=headers).status_code == 200


def test_health_and_metrics_need_no_key(locked):
    assert {locked.ask("GET", path).status_code for path in OPEN} == {200}


def test_refusals_name_the_setting_and_are_counted(locked):
    missing = locked.ask("GET", "/info").json()
    assert "one of SWIFTLET_SEARCH_KEYS is expected" in missing["detail"]
    assert locked.ask("GET", "/info", headers=bearer("wrong")).json()["detail"] == (
        "the key is none of SWIFTLET_SEARCH_KEYS"
    )
    text = locked.ask("GET", "/metrics").text
    assert 'swiftlet_rejected_total{reason="missing-key"} 1.0' in text
    assert 'swiftlet_rejected_total{reason="wrong-key"} 1.0' in text
    assert 'swiftlet_rejected_total{reason="queue-full"} 0.0' in text


def test_without_an_admin_key_reloads_are_refused(make_application, small_searcher):
    application = make_application(small_searcher, load=lambda: pytest.fail("allowed"))
    for headers in ({}, bearer(""), bearer("anything")):
        answer = application.ask("POST", "/admin/reload", headers=headers)
        assert answer.status_code == 403
        assert "SWIFTLET_ADMIN_KEYS is not set" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/search?q=bread", "/search?q=", "/nothing", "/docs", "/metrics", *PAGE_FILES]
)
def test_every_answer_has_security_headers(client, path):
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers.get_list("content-security-policy")[0].startswith("default-src 'none'")
    assert len(headers.get_list("content-security-policy")) == 1


@pytest.fixture
def shared(make_application, small_searcher) -> Any:
    origins = ["https://a.example", "http://localhost:3000"]
    return make_application(small_searcher, cors_origins=origins)


def test_pages_of_the_origins_that_are_set_may_read_answers(shared):
    for path, status in (("/search?q=bread", 200), ("/search?q=", 422), ("/nothing", 404)):
        answer = shared.ask("GET", path, headers={"Origin": "http://localhost:3000"})
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert "server-timing" in answer.headers["access-control-expose-headers"]
        assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("origin", ["https://b.example", "https://a.example.evil", "null", ""])
def test_pages_of_other_origins_may_not_read_answers(shared, origin):
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    for method in ("GET", "OPTIONS"):
        answer = shared.ask(method, "/search?q=bread", headers=headers)
        assert "access-control-allow-origin" not in answer.headers
        assert "Origin" in answer.headers["vary"]


def test_cors_preflights_are_answered(shared):
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    answer = shared.ask("OPTIONS", "/search", headers=asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert "authorization" in answer.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    assert shared.ask("OPTIONS", "/search").status_code == 405
    text = shared.ask("GET", "/metrics").text
    assert 'swiftlet_requests_total{route="unknown",status="200"} 1.0' in text


def test_all_origins_may_be_let_in_and_none_is_by_default(make_application, small_searcher):
    headers = {"Origin": "https://anybody.example"}
    everybody = make_application(small_searcher, cors_origins=["*"])
    answer = everybody.ask("GET", "/search?q=a", headers=headers)
    assert answer.headers["access-control-allow-origin"] == "*"
    nobody = make_application(small_searcher).ask("GET", "/search?q=a", headers=headers)
    assert not [name for name in nobody.headers if re.match("access-control|vary", name)]
