"""An encoder on a server that answers `/v1/embeddings` as OpenAI's API does."""

import json
import logging
import os
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from swiftlet.deadline import Answer, AnswerError, Exchanges, retry_after_seconds, seconds_left
from swiftlet.encoders.encoder import Role
from swiftlet.errors import EncoderError, EncoderTimeoutError, InvalidArgumentError, shown

logger = logging.getLogger(__name__)

KEY_VARIABLE = "SWIFTLET_ENCODER_KEY"
"""The variable with the key of the address that a command names."""

SHAPE = "http(s)://HOST[:PORT]/v1?model=NAME"
_ROUTE = "/embeddings"
_NUMBERS = ("max_tokens", "dimensions")
_OPTIONS = ("model", "query_prompt", "passage_prompt", "query_type", "passage_type", *_NUMBERS)
_FEWEST_TOKENS, _MOST_TOKENS = 16, 1 << 17
_PATIENCE_SECONDS, _REQUEST_SECONDS = 300.0, 120.0
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.25, 16.0
_NOTED_SECONDS = 3.0
_MOST_BYTES = 1 << 24
_MOVED = range(300, 400)
_BUSY = {429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class EncoderAddress:
    """Where a model answers, its name there, and the options that stand in its address.

    The `key` is no part of the text.
    """

    url: str
    options: tuple[tuple[str, str], ...]
    key: str = field(default="", repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, *, key: str = "") -> "EncoderAddress":
        """The address that a text is.

        :raises InvalidArgumentError: When it is none.
        """
        bare = text.partition("?")[0].rpartition("@")[2]  # what is shown has no password
        try:
            parts = urlsplit(text)
            place = parts.hostname, parts.port
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)
        except ValueError:
            place, pairs = (None, None), []
        options = dict(pairs)
        if not place[0] or parts.scheme not in {"http", "https"} or parts.fragment:
            raise InvalidArgumentError(
                f"the encoder is {shown(bare)}, but an address such as {SHAPE} is expected"
            )
        if parts.username is not None or parts.password is not None:
            raise InvalidArgumentError(
                f"the address of the encoder has a name or a password before {shown(bare)}: set "
                f"{KEY_VARIABLE} to its key instead"
            )
        if unknown := [name for name in options if name not in _OPTIONS]:
            raise InvalidArgumentError(
                f"the address of the encoder has the option {shown(unknown[0])}, but one of "
                f"{', '.join(_OPTIONS)} is expected, and the key in {KEY_VARIABLE}"
            )
        if not options.get("model") or len(options) < len(pairs):
            raise InvalidArgumentError(
                f"the address of the encoder, {shown(bare)}, names no model, or an option twice: "
                f"{SHAPE} is expected"
            )
        for name, least in zip(_NUMBERS, (_FEWEST_TOKENS, 1), strict=True):
            given = options.get(name, f"{least}")
            if not given.isdecimal() or not least <= int(given) <= _MOST_TOKENS:
                raise InvalidArgumentError(
                    f"{name} of the encoder's address is {shown(given)}, but a number from {least} "
                    f"to {_MOST_TOKENS} is expected"
                )
        path = parts.path.rstrip("/").removesuffix(_ROUTE) or "/v1"
        return cls(f"{parts.scheme}://{parts.netloc}{path}", tuple(sorted(options.items())), key)

    def __str__(self) -> str:
        return f"{self.url}?{urlencode(self.options)}"

    def option(self, name: str) -> str | None:
        """An option of the address, or None."""
        return dict(self.options).get(name)

    @property
    def prompts(self) -> dict[Role, str]:
        """What stands before each text of a role."""
        return {
            "query": self.option("query_prompt") or "",
            "passage": self.option("passage_prompt") or "",
        }

    @property
    def max_tokens(self) -> int | None:
        """The most tokens of a text, or None."""
        given = self.option("max_tokens")
        return None if given is None else int(given)


def key_of_environment() -> str:
    """The key that the environment has for an address.

    :raises InvalidArgumentError: When it is no key.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if not key.isascii() or not key.isprintable():
        raise InvalidArgumentError(f"{KEY_VARIABLE} has a character that no key has")
    return key


class Endpoint:
    """Asks an address for the embeddings of texts, over connections that stay open. Thread-safe.

    What an address refuses because it is busy is asked again, later each time and not before the
    time of `Retry-After`, for five minutes, or until the deadline of a search. The first wait of
    more than three seconds is logged.
    """

    def __init__(self, address: EncoderAddress) -> None:
        """Ask nothing yet.

        :raises MissingExtraError: When httpx is not installed.
        """
        self._address, self._name = address, f"{address}"
        key = {"Authorization": f"Bearer {address.key}"} if address.key else {}
        self._exchange = Exchanges(key)
        self._has_answered = self._is_noted = False

    def __call__(self, texts: list[str], role: Role | None) -> list[Any]:
        """The embeddings of texts, as lists of numbers.

        :raises EncoderError: When the address does not answer, or refuses.
        :raises EncoderTimeoutError: When it does not answer in time.
        """
        body: dict[str, Any] = {"input": texts, "model": self._address.option("model")}
        if (dimensions := self._address.option("dimensions")) is not None:
            body["dimensions"] = int(dimensions)
        if (kind := self._address.option(f"{role}_type")) is not None:
            body["input_type"] = kind
        content = json.dumps(body).encode()
        began = perf_counter()
        due = began + min(_PATIENCE_SECONDS, seconds_left())
        pause_seconds = _FIRST_PAUSE_SECONDS
        while True:
            problem, answer = "", Answer(0, {}, b"")
            try:
                answer = self._post(content, due)
            except ConnectionError as error:
                problem = f"{error}"
                if not self._has_answered:  # a wrong address is no busy one
                    raise EncoderError(problem) from error
            if answer.status == HTTPStatus.OK:
                self._has_answered = True
                return self._read(answer, len(texts))
            if answer.status not in _BUSY and not problem:
                raise self._refusal(answer)
            problem = problem or f"{self._refusal(answer)}"
            least = retry_after_seconds(answer.headers.get("retry-after", ""))
            wait_seconds = max(pause_seconds, least)
            if perf_counter() + wait_seconds > due:
                raise EncoderError(f"{problem}; it was asked again until there was no time left")
            if not self._is_noted and perf_counter() + wait_seconds > began + _NOTED_SECONDS:
                self._is_noted = True
                most = due - began
                logger.warning("%s; it is asked again, for at most %.0f seconds", problem, most)
            time.sleep(wait_seconds)
            pause_seconds = min(2 * pause_seconds, _LAST_PAUSE_SECONDS)

    def _post(self, content: bytes, due: float) -> Answer:
        """The answer of the server.

        :raises EncoderError: When it is none that can be read.
        :raises ConnectionError: When there is none.
        """
        due, url = min(due, perf_counter() + _REQUEST_SECONDS), f"{self._address.url}{_ROUTE}"
        try:
            return self._exchange("POST", url, content, due=due, most_bytes=_MOST_BYTES)
        except AnswerError as error:
            raise EncoderError(f"the encoder {self._name} {self._hidden(f'{error}')}") from error
        except TimeoutError as error:
            raise EncoderTimeoutError(
                f"the encoder {self._name} has not answered in time"
            ) from error
        except ConnectionError as error:
            reason = self._hidden(f"{error}")
            raise ConnectionError(f"the encoder {self._name} is not reached: {reason}") from error

    def _read(self, answer: Answer, count: int) -> list[Any]:
        """The embeddings in an answer, in the order of the texts."""
        try:
            found = json.loads(answer.content)["data"]
            rows = {int(each.get("index", n)): each["embedding"] for n, each in enumerate(found)}
            some = 0 < len(rows) < count  # refused below
            embeddings = [] if some else [rows[n] for n in range(count)]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            kind = self._hidden(answer.headers.get("content-type", "no type"))
            raise EncoderError(
                f"the encoder {self._name} answers with {shown(kind)} that has no {count} "
                f"embeddings; {self._hint}"
            ) from error
        if len(rows) < len(found) == count:
            numbers = [int(each.get("index", n)) for n, each in enumerate(found)]
            twice = next(each for each in numbers if numbers.count(each) > 1)
            raise EncoderError(f"the encoder {self._name} gives the index {twice} more than once")
        if len(rows) != count or len(found) != count:
            raise EncoderError(
                f"the encoder {self._name} gives {len(found)} embeddings for {count} texts"
            )
        return embeddings

    def _refusal(self, answer: Answer) -> EncoderError:
        status = answer.status
        # Before it is shortened, which may leave half a key, and after its escapes are read.
        reason = self._hidden(_reason(self._hidden(answer.content.decode("utf-8", "replace"))))
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            reason += f"; set {KEY_VARIABLE} to its key"
            if self._address.key:
                reason += f", since the one in {KEY_VARIABLE} is not it"
            else:
                reason += ", and name the address: an index's own address gets no key"
        if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED} or status in _MOVED:
            reason += f"; {self._hint}"
        return EncoderError(f"the encoder {self._name} answers {status}{reason}")

    def _hidden(self, text: str) -> str:
        """What a server says without the key, which it may repeat."""
        return text.replace(self._address.key, "…") if self._address.key else text

    @property
    def _hint(self) -> str:
        """The likely mistake where another page or none answers."""
        return (
            f"{self._address.url}{_ROUTE} was asked: is it the address of an OpenAI-compatible "
            f"API, which mostly ends in /v1, such as {SHAPE}?"
        )


def _reason(answer: str) -> str:
    """What a server says of its refusal, where it is JSON; pages of HTML say nothing."""
    try:
        found: Any = json.loads(answer)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(found, dict):
            found = found.get(name, found)
    return f": {shown(found)}"
