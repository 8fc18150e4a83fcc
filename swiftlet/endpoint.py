"""A model on a server that answers as OpenAI's API does: its address, and how it is asked."""

import json
import logging
import os
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from swiftlet.deadline import Answer, AnswerError, Exchanges, retry_after_seconds, seconds_left
from swiftlet.errors import InvalidArgumentError, RetrievalError, shown

logger = logging.getLogger(__name__)

SHAPE = "http(s)://HOST[:PORT]/v1?model=NAME"
_PATIENCE_SECONDS, _REQUEST_SECONDS = 300.0, 120.0
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.25, 16.0
_NOTED_SECONDS = 3.0
_MOST_BYTES = 1 << 24
_MOVED = range(300, 400)
_BUSY = {429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Where a model answers, its name there, and the options that stand in its address.

    The `key` is no part of the text.
    """

    url: str
    options: tuple[tuple[str, str], ...]
    key: str = field(default="", repr=False, compare=False)

    noun: ClassVar[str]
    """What the model is, in messages."""

    key_variable: ClassVar[str]
    """The variable with the key of an address that a command names."""

    route: ClassVar[str]
    option_names: ClassVar[tuple[str, ...]] = ("model",)

    @classmethod
    def parse(cls, text: str, *, key: str = "") -> Self:
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
                f"the {cls.noun} is {shown(bare)}, but an address such as {SHAPE} is expected"
            )
        if parts.username is not None or parts.password is not None:
            raise InvalidArgumentError(
                f"the address of the {cls.noun} has a name or a password before {shown(bare)}: set "
                f"{cls.key_variable} to its key instead"
            )
        if unknown := [name for name in options if name not in cls.option_names]:
            raise InvalidArgumentError(
                f"the address of the {cls.noun} has the option {shown(unknown[0])}, but "
                f"{'one of ' * (len(cls.option_names) > 1)}{', '.join(cls.option_names)} is "
                f"expected, and the key in {cls.key_variable}"
            )
        if not options.get("model") or len(options) < len(pairs):
            raise InvalidArgumentError(
                f"the address of the {cls.noun}, {shown(bare)}, names no model, or an option "
                f"twice: {SHAPE} is expected"
            )
        cls.check(options)
        path = parts.path.rstrip("/").removesuffix(cls.route) or "/v1"
        return cls(f"{parts.scheme}://{parts.netloc}{path}", tuple(sorted(options.items())), key)

    @classmethod
    def check(cls, options: dict[str, str]) -> None:
        """Refuse options with bad values."""

    @classmethod
    def key_of_environment(cls) -> str:
        """The key that the environment has for an address.

        :raises InvalidArgumentError: When it is no key.
        """
        key = os.environ.get(cls.key_variable, "")
        if not key.isascii() or not key.isprintable():
            raise InvalidArgumentError(f"{cls.key_variable} has a character that no key has")
        return key

    def __str__(self) -> str:
        return f"{self.url}?{urlencode(self.options)}"

    def option(self, name: str) -> str | None:
        """An option of the address, or None."""
        return dict(self.options).get(name)


class ModelEndpoint:
    """Asks an address, over connections that stay open. Thread-safe.

    What an address refuses because it is busy is asked again, later each time and not before the
    time of `Retry-After`, for five minutes, or until the deadline of a search. The first wait of
    more than three seconds is logged.
    """

    error: type[RetrievalError]
    late: type[RetrievalError]
    """An error of time."""

    no_key = ""
    """What to do when an address is asked without a key, and wants one."""

    def __init__(self, address: ModelAddress) -> None:
        """Ask nothing yet.

        :raises MissingExtraError: When httpx is not installed.
        """
        self._address, self._name = address, f"the {address.noun} {address}"
        key = {"Authorization": f"Bearer {address.key}"} if address.key else {}
        self._exchange = Exchanges(key)
        self._has_answered = self._is_noted = False

    def ask(self, body: dict[str, Any]) -> Answer:
        """The answer to a body of JSON, whose status is 200.

        :raises RetrievalError: `error` when the address does not answer, or refuses; `late` when
            it does not answer in time.
        """
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
                    raise self.error(problem) from error
            if answer.status == HTTPStatus.OK:
                self._has_answered = True
                return answer
            if answer.status not in _BUSY and not problem:
                raise self._refusal(answer)
            problem = problem or f"{self._refusal(answer)}"
            least = retry_after_seconds(answer.headers.get("retry-after", ""))
            wait_seconds = max(pause_seconds, least)
            if perf_counter() + wait_seconds > due:
                raise self.error(f"{problem}; it was asked again until there was no time left")
            if not self._is_noted and perf_counter() + wait_seconds > began + _NOTED_SECONDS:
                self._is_noted = True
                most = due - began
                logger.warning("%s; it is asked again, for at most %.0f seconds", problem, most)
            time.sleep(wait_seconds)
            pause_seconds = min(2 * pause_seconds, _LAST_PAUSE_SECONDS)

    def _post(self, content: bytes, due: float) -> Answer:
        """The answer of the server.

        :raises ConnectionError: When there is none.
        """
        due = min(due, perf_counter() + _REQUEST_SECONDS)
        url = f"{self._address.url}{self._address.route}"
        try:
            return self._exchange("POST", url, content, due=due, most_bytes=_MOST_BYTES)
        except AnswerError as error:
            raise self.error(f"{self._name} {self._hidden(f'{error}')}") from error
        except TimeoutError as error:
            raise self.late(f"{self._name} has not answered in time") from error
        except ConnectionError as error:
            reason = self._hidden(f"{error}")
            raise ConnectionError(f"{self._name} is not reached: {reason}") from error

    def without(self, answer: Answer, what: str) -> RetrievalError:
        """The error for an answer that has not what is expected."""
        kind = self._hidden(answer.headers.get("content-type", "no type"))
        return self.error(f"{self._name} answers with {shown(kind)} that has {what}; {self._hint}")

    def _refusal(self, answer: Answer) -> RetrievalError:
        status, variable = answer.status, self._address.key_variable
        # Before it is shortened, which may leave half a key, and after its escapes are read.
        reason = self._hidden(_reason(self._hidden(answer.content.decode("utf-8", "replace"))))
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            reason += f"; set {variable} to its key"
            if self._address.key:
                reason += f", since the one in {variable} is not it"
            else:
                reason += self.no_key
        if status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED} or status in _MOVED:
            reason += f"; {self._hint}"
        return self.error(f"{self._name} answers {status}{reason}")

    def _hidden(self, text: str) -> str:
        """What a server says without the key, which it may repeat."""
        return text.replace(self._address.key, "…") if self._address.key else text

    @property
    def _hint(self) -> str:
        """The likely mistake where another page or none answers."""
        return (
            f"{self._address.url}{self._address.route} was asked: is it the address of an "
            f"OpenAI-compatible API, which mostly ends in /v1, such as {SHAPE}?"
        )


def _reason(answer: str) -> str:
    """What a server says of its refusal in JSON; pages of HTML and other objects say nothing."""
    try:
        found: Any = json.loads(answer)
    except (ValueError, RecursionError):
        return ""
    for name in ("error", "message", "detail"):
        if isinstance(found, dict):
            found = found.get(name, found)
    return f": {shown(found)}" if isinstance(found, str) else ""
