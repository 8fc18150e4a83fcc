import json
import logging

from service.sight.logs import JsonFormatter


def test_a_log_in_json_is_one_object_a_line(start_server):
    server = start_server(log_format="json", access_log="true")
    with server.client() as client:
        answer = client.get("/search?q=private", headers={"X-Request-Id": "abc"})
    server.process.terminate()
    assert server.ended() == 0
    records = [json.loads(line) for line in server.log]
    assert {record["level"] for record in records} == {"info"}
    assert not [record for record in records if record["logger"].startswith("faiss")]
    (request,) = [record for record in records if record.get("request_id") == "abc"]
    assert request["route"] == "/search"
    assert (request["method"], request["status"]) == ("GET", answer.status_code)
    assert 0 < request["milliseconds"] < 10_000
    assert request["time"].endswith("+00:00")
    assert "private" not in "".join(server.log)


def test_an_exception_stays_on_its_line():
    try:
        int("first\nsecond")
    except ValueError as error:
        record = logging.LogRecord("name", logging.ERROR, "", 0, "failed", (), None)
        record.exc_info = (type(error), error, error.__traceback__)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["exception"].splitlines()[-1].startswith("ValueError")
