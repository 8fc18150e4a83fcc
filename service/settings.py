"""The settings of the service, from `SWIFTLET_*` variables or options of the command line."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from service.admission.executor import DEFAULT_MAX_QUEUED
from service.sight.logs import LogFormat
from service.wire.requests import MEBIBYTE, Limits
from swiftlet.address import ADDRESSES, Address
from swiftlet.arguments import place_of
from swiftlet.encoders.encoder import Precision
from swiftlet.encoders.opening import Place, directory_of, encoder_place
from swiftlet.errors import InvalidArgumentError
from swiftlet.index.query_encoder import query_encoder_if_any
from swiftlet.processors import available_processors
from swiftlet.search.request import Mode

PREFIX = "SWIFTLET_"

OTHER_VARIABLES = frozenset({"SWIFTLET_DATA", "SWIFTLET_LLM_KEY"})
"""Variables with the prefix that are no settings of the service: the folder of test collections,
and the key for `swiftlet judge --llm`."""

_PORT = f"{PREFIX}PORT"
_LINK = re.compile(
    rf"{PREFIX}(\w{{1,63}}_)?(SERVICE_HOST|SERVICE_PORT(_\w{{1,63}})?|PORT_\d{{1,5}}_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)"
)
_LINKED = re.compile("(tcp|udp|sctp)://")

_LIMITS = Limits()
_CHALLENGER = ("challenger_encoder", "challenger_weight", "challenger_mode")

_ORIGINS = r"^(\*|https?://[^\s/,*]+(\s*,\s*https?://[^\s/,*]+)*)?$"
_SHORTEST_KEY = 16
_MOST_THREADS = 256


def _check_keys(keys: SecretStr) -> SecretStr:
    # Every client can send visible ASCII characters in a header.
    for key in listed(keys):
        if len(key) < _SHORTEST_KEY or not all("!" <= character <= "~" for character in key):
            raise ValueError
    return keys


Keys = Annotated[
    SecretStr,
    AfterValidator(_check_keys),
    Field(description=f"keys of at least {_SHORTEST_KEY} letters, digits and signs, with commas"),
]

EncoderPlace = Annotated[Place, BeforeValidator(encoder_place)]

Count = Annotated[int, Field(ge=1, description="a whole number from 1")]


class Settings(BaseSettings):
    """Every setting, each with its default; docs/settings.md describes them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True
    )

    index: Annotated[Path | Address, BeforeValidator(partial(place_of, "index"))] | None = Field(
        None, description=f"the path of an index directory, {ADDRESSES}"
    )
    indexes: Path | None = Field(None, description="the path of a folder of index directories")
    open_indexes: Count = 32
    encoder: EncoderPlace | None = Field(
        None,
        description="the path of an encoder directory, the name of one that ships, "
        "MODULE:FUNCTION, or an address of embeddings",
    )
    precision: Precision | None = Field(None, description="int8, int8_static or fp32")
    reranker: Path | None = Field(None, description="the path of a re-ranker's directory")
    files: Path | None = Field(None, description="the path of the folder that was indexed")
    host: str = Field(
        "127.0.0.1",
        pattern=r"[^\s,]",
        description="an address of this machine, or several with commas",
    )
    port: int = Field(8000, ge=0, le=65_535, description="a whole number from 0 to 65535")
    threads: int = Field(
        default_factory=available_processors,
        ge=1,
        le=_MOST_THREADS,
        description=f"a whole number from 1 to {_MOST_THREADS}",
    )
    workers: int | None = Field(
        None, ge=1, le=_MOST_THREADS, description=f"a whole number from 1 to {_MOST_THREADS}"
    )
    max_query_chars: Count = _LIMITS.max_query_chars
    max_top_k: Count = _LIMITS.max_top_k
    max_reranked: Count = _LIMITS.max_reranked
    max_offset: Count = _LIMITS.max_offset
    max_batch_queries: Count = _LIMITS.max_batch_queries
    max_batch_hits: Count = _LIMITS.max_batch_hits
    max_embeddings: Count = _LIMITS.max_embeddings
    max_search_body_bytes: Count = _LIMITS.max_search_body_bytes
    max_documents: Count = _LIMITS.max_documents
    max_passages: Count = _LIMITS.max_passages
    max_body_bytes: Count = _LIMITS.max_body_bytes
    max_unread_bytes: Count = _LIMITS.max_unread_bytes
    write_timeout_ms: Count = 10_000
    body_timeout_ms: Count = _LIMITS.body_timeout_ms
    max_queued_queries: Count = DEFAULT_MAX_QUEUED
    timeout_ms: Count = _LIMITS.timeout_ms
    cache_bytes: int = Field(16 * 1024 * 1024, ge=0, description="a whole number from 0")
    index_token: SecretStr = Field(
        SecretStr(""), description="the token of the server that holds the index"
    )
    keys: Path | None = Field(None, description="the path of a file of keys")
    search_keys: Keys = SecretStr("")
    admin_keys: Keys = SecretStr("")
    write_keys: Keys = SecretStr("")
    encoder_key: SecretStr = Field(SecretStr(""), description="the key of the address that encodes")
    document_encoder: EncoderPlace | None = Field(
        None, description="the encoder that the index was built by, as for the query encoder"
    )
    encode_threads: int = Field(
        1, ge=1, le=_MOST_THREADS, description=f"a whole number from 1 to {_MOST_THREADS}"
    )
    cors_origins: str = Field(
        "", pattern=_ORIGINS, description="* or origins such as https://example.org, with commas"
    )
    drain_timeout_seconds: Count = 30
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error"
    )
    log_format: LogFormat = Field("text", description="text or json")
    access_log: bool = Field(False, description="true or false")
    query_log: Path | None = Field(None, description="the path of a folder")
    query_log_bytes: int = Field(
        100 * MEBIBYTE, ge=MEBIBYTE, description=f"a whole number from {MEBIBYTE}"
    )
    query_log_days: Count = 30
    query_log_redact: re.Pattern[str] | None = Field(None, description="a regular expression")
    query_log_key: SecretStr = Field(
        SecretStr(""), description="a key, by which queries are hashed in the log"
    )
    challenger_encoder: Annotated[Path, BeforeValidator(directory_of)] | None = Field(
        None, description="the path of an encoder directory, or the name of one that ships"
    )
    challenger_weight: float | None = Field(None, ge=0, le=1, description="a number from 0 to 1")
    challenger_mode: Mode | None = Field(None, description="hybrid, dense or lexical")
    challenger_shadow: bool = Field(False, description="true or false")
    judgements: Path | None = Field(None, description="the path of a folder")
    tracing: bool = Field(False, description="true or false")

    @property
    def query_encoder(self) -> Place | None:
        """Where the query encoder is; if none is set, the one of the index now, if any."""
        if self.encoder is not None or self.index is None:
            return self.encoder
        return query_encoder_if_any(self.index)

    @property
    def challenges(self) -> bool:
        """Whether searches are compared with another way to search."""
        return any(getattr(self, name) is not None for name in _CHALLENGER)

    @property
    def limits(self) -> Limits:
        """The limits of one request."""
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})

    @model_validator(mode="after")
    def _an_index_or_an_encoder(self) -> Self:
        if self.index is None and self.encoder is None and self.indexes is None:
            expected = type(self).model_fields["index"].description
            raise PydanticCustomError(
                "no_index",
                "{prefix}INDEX is not set; {expected} is expected, or: swiftlet serve INDEX",
                {"prefix": PREFIX, "expected": expected},
            )
        return self

    @model_validator(mode="after")
    def _a_whole_batch_can_wait(self) -> Self:
        if self.max_queued_queries < self.max_batch_queries:
            raise PydanticCustomError(
                "queue_too_short",
                "{prefix}MAX_QUEUED_QUERIES is {queued}; at least {prefix}MAX_BATCH_QUERIES, "
                "which is {batch}, is expected",
                {
                    "prefix": PREFIX,
                    "queued": self.max_queued_queries,
                    "batch": self.max_batch_queries,
                },
            )
        return self

    @model_validator(mode="after")
    def _what_is_judged_has_an_index(self) -> Self:
        for name in ("judgements", *_CHALLENGER):
            if self.index is None and getattr(self, name) is not None:
                raise PydanticCustomError(
                    "no_index_to_judge",
                    "{variable} is about an index, but {prefix}INDEX is not set: set it, too",
                    {"variable": f"{PREFIX}{name.upper()}", "prefix": PREFIX},
                )
        return self

    @model_validator(mode="after")
    def _clicks_judge_a_challenger(self) -> Self:
        if self.challenges and self.query_log is None and not self.challenger_shadow:
            raise PydanticCustomError(
                "no_clicks",
                "a challenger is judged by clicks, but {prefix}QUERY_LOG is not set: name a folder "
                "for them, or set {prefix}CHALLENGER_SHADOW=true, which only compares",
                {"prefix": PREFIX},
            )
        return self

    def lines(self) -> Iterator[str]:
        """The settings as variables, for the log at the start; secrets become asterisks."""
        for name, value in self:
            if value is not None:
                yield f"{PREFIX}{name.upper()}={value}"


def listed(setting: SecretStr | str) -> list[str]:
    """The entries of a setting that takes several, with commas between them."""
    text = setting.get_secret_value() if isinstance(setting, SecretStr) else setting
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def load_settings(**given: Any) -> Settings:
    """The settings from `given`, else the environment, else the defaults.

    An option that is None was not given.

    :raises InvalidArgumentError: When a setting is missing, unknown or outside its bounds.
    """
    _check_names(os.environ)
    given = {name: value for name, value in given.items() if value is not None}
    if _is_service_link(_PORT, os.environ.get(_PORT, "")):
        given.setdefault("port", Settings.model_fields["port"].default)
    try:
        return Settings(**given)
    except ValidationError as error:
        raise InvalidArgumentError(_sentence(error.errors()[0], given)) from None
    except SettingsError as error:
        raise InvalidArgumentError(str(error)) from None


def _check_names(environment: Mapping[str, str]) -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    for name, value in environment.items():
        if _is_service_link(name.upper(), value):
            continue
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            raise InvalidArgumentError(
                f"{name} is no setting of Swiftlet; docs/settings.md lists them"
            )


def _is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes has set a variable, for a Service with a name such as swiftlet."""
    return bool(_LINK.fullmatch(name) or (name.endswith("_PORT") and _LINKED.match(value)))


def _sentence(mistake: ErrorDetails, given: Mapping[str, Any]) -> str:
    """What is wrong with a setting, by the name of the option if that gave it."""
    if not mistake["loc"]:
        return mistake["msg"]
    name = str(mistake["loc"][0])
    variable = f"--{name.replace('_', '-')}" if name in given else f"{PREFIX}{name.upper()}"
    if name not in Settings.model_fields:
        return f"{name} is no setting of Swiftlet; docs/settings.md lists them"
    expected = Settings.model_fields[name].description
    if isinstance(error := mistake.get("ctx", {}).get("error"), InvalidArgumentError):
        return f"{variable}: {error}"
    if Settings.model_fields[name].annotation is SecretStr:
        return f"{variable} is wrong; {expected} is expected"
    return f"{variable} is {mistake['input']!r}; {expected} is expected"
