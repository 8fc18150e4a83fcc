"""An encoder on a server that answers `/v1/embeddings` as OpenAI's API does."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from swiftlet.deadline import Answer
from swiftlet.encoders.encoder import Role
from swiftlet.endpoint import ModelAddress, ModelEndpoint
from swiftlet.errors import EncoderError, EncoderTimeoutError, InvalidArgumentError, shown

_NUMBERS = ("max_tokens", "dimensions")
_FEWEST_TOKENS, _MOST_TOKENS = 16, 1 << 17


@dataclass(frozen=True, slots=True)
class EncoderAddress(ModelAddress):
    """Where an encoder answers, its name there, and the options that stand in its address."""

    noun: ClassVar[str] = "encoder"
    key_variable: ClassVar[str] = "SWIFTLET_ENCODER_KEY"
    route: ClassVar[str] = "/embeddings"
    option_names: ClassVar[tuple[str, ...]] = (
        "model", "query_prompt", "passage_prompt", "query_type", "passage_type", *_NUMBERS
    )  # fmt: skip

    @classmethod
    def check(cls, options: dict[str, str]) -> None:
        """Refuse numbers out of their bounds."""
        for name, least in zip(_NUMBERS, (_FEWEST_TOKENS, 1), strict=True):
            given = options.get(name, f"{least}")
            if not given.isdecimal() or not least <= int(given) <= _MOST_TOKENS:
                raise InvalidArgumentError(
                    f"{name} of the encoder's address is {shown(given)}, but a number from {least} "
                    f"to {_MOST_TOKENS} is expected"
                )

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


class Endpoint(ModelEndpoint):
    """Asks an address for the embeddings of texts."""

    error, late = EncoderError, EncoderTimeoutError
    no_key = ", and name the address: an index's own address gets no key"

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
        return self._read(self.ask(body), len(texts))

    def _read(self, answer: Answer, count: int) -> list[Any]:
        """The embeddings in an answer, in the order of the texts."""
        try:
            found = json.loads(answer.content)["data"]
            rows = {int(each.get("index", n)): each["embedding"] for n, each in enumerate(found)}
            some = 0 < len(rows) < count  # refused below
            embeddings = [] if some else [rows[n] for n in range(count)]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise self.without(answer, f"no {count} embeddings") from error
        if len(rows) < len(found) == count:
            numbers = [int(each.get("index", n)) for n, each in enumerate(found)]
            twice = next(each for each in numbers if numbers.count(each) > 1)
            raise EncoderError(f"{self._name} gives the index {twice} more than once")
        if len(rows) != count or len(found) != count:
            raise EncoderError(f"{self._name} gives {len(found)} embeddings for {count} texts")
        return embeddings
