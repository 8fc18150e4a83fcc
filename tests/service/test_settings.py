from pathlib import Path

import pytest

from service.settings import OTHER_VARIABLES, Settings, listed, load_settings
from swiftlet.encoders import DEFAULT_QUERY_ENCODER, QUERY_ENCODER_FOLDER
from swiftlet.errors import InvalidArgumentError
from swiftlet.processors import available_processors

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def _no_settings_outside(monkeypatch) -> None:
    for variable in [*(f"SWIFTLET_{name.upper()}" for name in Settings.model_fields)]:
        monkeypatch.delenv(variable, raising=False)


def test_an_option_comes_before_the_environment_and_that_before_the_default(monkeypatch):
    monkeypatch.setenv("SWIFTLET_PORT", "1234")
    monkeypatch.setenv("SWIFTLET_MAX_TOP_K", "77")
    monkeypatch.setenv("SWIFTLET_HOST", "")
    monkeypatch.setenv("SWIFTLET_DATA", "/anything")
    with pytest.raises(InvalidArgumentError, match="--port is 99999; a whole number from 0 to"):
        load_settings(index="i", port=99999)
    settings = load_settings(index=Path("i"), encoder=Path("to/e"), port=9, threads=None)
    assert (settings.port, settings.limits.max_top_k, settings.host) == (9, 77, "127.0.0.1")
    assert settings.threads == available_processors()
    assert load_settings(index="i", encoder="to/e").port == 1234


def test_the_encoder_of_the_index_is_used_if_none_is_named(monkeypatch, tmp_path, small_index):
    assert load_settings(index=small_index).query_encoder == DEFAULT_QUERY_ENCODER
    (tmp_path / QUERY_ENCODER_FOLDER).mkdir()
    assert load_settings(index=tmp_path).query_encoder == tmp_path / QUERY_ENCODER_FOLDER
    assert load_settings(index=tmp_path, encoder="to/e").query_encoder == Path("to/e")
    monkeypatch.setenv("swiftlet_encoder", "out/side")
    assert load_settings(index=tmp_path).query_encoder == Path("out/side")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PORT", "65536", "SWIFTLET_PORT is '65536'; a whole number from 0 to 65535 is expected"),
        ("HOST", " , ", "HOST is ' , '; an address of this machine, or several with commas is exp"),
        ("THREADS", "0", "SWIFTLET_THREADS is '0'; a whole number from 1 to 256 is expected"),
        ("MAX_TOP_K", "many", "SWIFTLET_MAX_TOP_K is 'many'; a whole number from 1 is expected"),
        ("PRECISION", "fp16", "is 'fp16'; int8, int8_static or fp32 is expected"),
        ("TIMEOUT_MS", "0", "SWIFTLET_TIMEOUT_MS is '0'; a whole number from 1 is expected"),
        ("LOG_FORMAT", "xml", "SWIFTLET_LOG_FORMAT is 'xml'; text or json is expected"),
        ("CORS_ORIGINS", "example.org", "is 'example.org'; * or origins such as https://exam"),
        ("CORS_ORIGINS", "https://a.org/path", "* or origins such as"),
        ("SEARCH_KEYS", "k3y", "SWIFTLET_SEARCH_KEYS is wrong; keys of at least 16 letters, dig"),
        ("ADMIN_KEYS", "0123456789abcdef,short", "SWIFTLET_ADMIN_KEYS is wrong; keys of at"),
        ("ADMIN_KEYS", "sixteen characters", "SWIFTLET_ADMIN_KEYS is wrong; keys of at"),
        (
            "MAX_QUEUED_QUERIES",
            "63",
            "SWIFTLET_MAX_QUEUED_QUERIES is 63; at least SWIFTLET_MAX_BATCH_QUERIES, which is 64,",
        ),
        ("LOG_LEVEL", "loud", "is 'loud'; debug, info, warning or error is expected"),
        ("ENCODER", "absent", "SWIFTLET_ENCODER: absent is not a directory, nor the name of an"),
        ("ACCESS_LOG", "perhaps", "SWIFTLET_ACCESS_LOG is 'perhaps'; true or false is expected"),
        ("INDEXED", "a", "SWIFTLET_INDEXED is no setting of Swiftlet; docs/settings.md lists"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_sentence(monkeypatch, name, value, sentence):
    monkeypatch.setenv(f"SWIFTLET_{name}", value)
    with pytest.raises(InvalidArgumentError) as refusal:
        load_settings(index="i")
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_required_setting_is_named():
    with pytest.raises(InvalidArgumentError, match="SWIFTLET_INDEX is not set; the path of an ind"):
        load_settings()
    with pytest.raises(InvalidArgumentError, match="colour is no setting of Swiftlet"):
        load_settings(index="i", encoder="to/e", colour="red")


def test_every_setting_is_documented_with_its_default():
    rows = {
        cells[1].strip(" `"): cells[2].strip(" `")
        for line in DOCUMENTATION.read_text().splitlines()
        if (cells := line.split("|"))[0] == "" and len(cells) > 3 and "SWIFTLET_" in cells[1]
    }
    assert rows.keys() == {f"SWIFTLET_{name.upper()}" for name in Settings.model_fields}
    for name, field in Settings.model_fields.items():
        default = rows[f"SWIFTLET_{name.upper()}"]
        if field.is_required():
            assert default == "required"
        elif field.default_factory is None and field.default is not None:
            plain = field.default.get_secret_value() if name.endswith("keys") else field.default
            assert default == str(plain).replace("False", "false")
    assert all(variable in DOCUMENTATION.read_text() for variable in OTHER_VARIABLES)


@pytest.mark.parametrize("given", [{"judgements": "folder"}, {"challenger_weight": 0.5}])
def test_what_judges_an_index_needs_one(given):
    (name,) = given
    sentence = f"SWIFTLET_{name.upper()} is about an index, but SWIFTLET_INDEX is not set"
    with pytest.raises(InvalidArgumentError, match=sentence):
        load_settings(encoder="all-MiniLM-L6-v2", **given)


def test_secrets_are_printed_as_asterisks():
    keys = "0123456789abcdef, another/key+of_16"
    settings = load_settings(index="i", encoder="to/e", search_keys=keys)
    assert listed(settings.search_keys) == ["0123456789abcdef", "another/key+of_16"]
    lines = list(settings.lines())
    assert "SWIFTLET_SEARCH_KEYS=**********" in lines
    assert not any("0123" in line for line in lines)
    assert "SWIFTLET_INDEX=i" in lines


def test_variables_that_kubernetes_sets_for_a_service_of_this_name_are_no_settings(monkeypatch):
    for name, value in {
        "SWIFTLET_SERVICE_HOST": "10.0.0.7", "SWIFTLET_SERVICE_PORT": "80",
        "SWIFTLET_SERVICE_PORT_HTTP": "80", "SWIFTLET_PORT": "tcp://10.0.0.7:80",
        "SWIFTLET_PORT_80_TCP": "tcp://10.0.0.7:80", "SWIFTLET_PORT_80_TCP_PROTO": "tcp",
        "SWIFTLET_PORT_80_TCP_PORT": "80", "SWIFTLET_PORT_80_TCP_ADDR": "10.0.0.7",
        "SWIFTLET_CANARY_PORT": "tcp://10.0.0.8:80", "SWIFTLET_CANARY_SERVICE_HOST": "10.0.0.8",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    assert load_settings(index="index").port == Settings.model_fields["port"].default
    assert load_settings(index="index", port=9).port == 9
    monkeypatch.setenv("SWIFTLET_PORT", "tcp")
    with pytest.raises(InvalidArgumentError, match="SWIFTLET_PORT is 'tcp'"):
        load_settings(index="index")
