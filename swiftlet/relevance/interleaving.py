"""Two rankings in one answer, and which of them the clicks prefer.

Team-draft interleaving: Radlinski, Kurup and Joachims 2008, "How Does Clickthrough Data Reflect
Retrieval Quality?". The test compares a fair coin with all other coins (Ville 1939; Robbins 1970):
it holds whenever somebody looks, and however often.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, lgamma, log
from random import Random
from typing import TypeVar

BOTH, TODAY, CHALLENGER = "=", "A", "B"
"""Who has given a document of an answer: both at its place, today's search, or the challenger."""

_SIGNIFICANT = 0.05

Ranked = TypeVar("Ranked")


def team_draft(
    today: Sequence[Ranked],
    challenger: Sequence[Ranked],
    name: Callable[[Ranked], str],
    draw: Random,
) -> tuple[list[Ranked], str]:
    """Mix two rankings into one as long as the longer one, and who gave each place.

    In each round a coin decides who chooses first, and each gives its best document that is not
    there yet. What both have at the same places at the top stays there: clicks on it prefer none.
    """
    mixed: list[Ranked] = []
    for one, other in zip(today, challenger, strict=False):
        if name(one) != name(other):
            break
        mixed.append(one)
    teams = BOTH * len(mixed)
    there = {name(each) for each in mixed}
    rankings = {
        team: iter(ranking[len(mixed) :])
        for team, ranking in ((TODAY, today), (CHALLENGER, challenger))
    }
    count = max(len(today), len(challenger))
    while len(mixed) < count:
        for team in draw.sample((TODAY, CHALLENGER), 2):
            best = next((each for each in rankings[team] if name(each) not in there), None)
            if best is None or len(mixed) == count:
                continue
            mixed.append(best)
            there.add(name(best))
            teams += team
    return mixed, teams


@dataclass(slots=True)
class Duel:
    """What clicks say of a challenger. A client that asks the same again has one vote."""

    challenger: str
    votes: dict[tuple[str, str], int] = field(default_factory=dict)
    """By session and query, the clicks for the challenger less those for today's search."""

    searches: int = 0
    clicks: int = 0

    def count(self, voter: tuple[str, str], teams: str, ranks: Iterable[int]) -> None:
        """Count a search and the ranks, from 1, that were opened in its answer."""
        self.searches += 1
        for rank in ranks:
            team = teams[rank - 1 : rank]
            if team in {TODAY, CHALLENGER}:
                self.clicks += 1
                self.votes[voter] = self.votes.get(voter, 0) + (1 if team == CHALLENGER else -1)

    @property
    def wins(self) -> int:
        """The votes for the challenger."""
        return sum(each > 0 for each in self.votes.values())

    @property
    def losses(self) -> int:
        """The votes for today's search."""
        return sum(each < 0 for each in self.votes.values())

    @property
    def p_value(self) -> float:
        """The probability of these votes if nobody prefers one of the two; valid at any time."""
        return anytime_p(each > 0 for each in self.votes.values() if each)

    @property
    def verdict(self) -> str:
        """What the votes say by now, in a sentence."""
        count, p_value = self.wins + self.losses, self.p_value
        better = "better" if self.wins > self.losses else "worse"
        shown = f"so it is {better}" if p_value <= _SIGNIFICANT else "no difference is shown yet"
        return (
            f"Clicks prefer the challenger ({self.challenger}) in {self.wins:,} of {count:,} "
            f"searches with a preference: {shown} ({p_text(p_value)}, whenever one looks)"
        )


def p_text(p_value: float) -> str:
    """A p-value for sentences."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def anytime_p(wins: Iterable[bool]) -> float:
    """A p-value of the hypothesis that a coin is fair, valid whenever one looks.

    After w wins and l losses, ∫ pʷ(1 - p)ˡ dp · 2ʷ⁺ˡ is how much more likely they are with a coin
    of any kind, each as probable as another, than with the fair one. The p-value is the inverse of
    the largest of these ratios so far.
    """
    found = [0, 0]
    largest = 0.0
    for won in wins:
        found[won] += 1
        of_all = lgamma(found[0] + 1) + lgamma(found[1] + 1) - lgamma(sum(found) + 2)
        largest = max(largest, of_all + sum(found) * log(2))
    return exp(-largest)
