"""How far judges agree, and whether their judgements are evidence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan, nan
from pathlib import Path
from typing import NamedTuple

from swiftlet import disk
from swiftlet.relevance.judgements import MODEL, Judgements, read_judgements, write_collection
from swiftlet.relevance.pool import Pair, Pool

FEWEST = 50
"""Judgements that are evidence, and documents in common that show how far two judges agree."""

LEAST_KAPPA = 0.4

_PEOPLE = "people"


class Agreement(NamedTuple):
    """How far two judges agree, on the documents that both have judged."""

    first: str
    second: str
    in_common: int
    kappa: float
    """Cohen's, with linear weights; not a number where it is not defined."""

    @property
    def is_of_model(self) -> bool:
        """Whether a language model is compared with all people."""
        return self.first.startswith(MODEL)

    @property
    def is_known(self) -> bool:
        """Whether both have judged enough documents."""
        return self.in_common >= FEWEST

    @property
    def missing(self) -> int:
        """Documents that both must still judge."""
        return max(0, FEWEST - self.in_common)

    @property
    def is_enough(self) -> bool:
        """Whether one may stand for the other."""
        return self.is_known and self.kappa >= LEAST_KAPPA

    def __str__(self) -> str:
        value = "no κ, since all grades are one" if isnan(self.kappa) else f"κ {self.kappa:.2f}"
        return (
            f"{self.first} and {self.second} have {value}, but at least {LEAST_KAPPA:g} is expected"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judgements of a folder are worth."""

    judgements: Judgements
    people: dict[Pair, int]
    agreements: list[Agreement]
    """Of each two people, and of each language model with all people."""

    @classmethod
    def on(cls, judgements: Judgements) -> "Verdict":
        """Compare all judges."""
        people, given = judgements.people, judgements.grades
        names = sorted(name for name in given if not name.startswith(MODEL))
        pairs = [(*each, given[each[0]], given[each[1]]) for each in combinations(names, 2)]
        pairs += [(name, _PEOPLE, given[name], people) for name in given if name.startswith(MODEL)]
        return cls(judgements, people, [_agreement(*each) for each in pairs])

    @property
    def grades(self) -> dict[Pair, int]:
        """The qrels: of people, and where they gave none, of models that agree with them."""
        found: dict[Pair, int] = {}
        for each in self.agreements:
            if each.is_of_model and each.is_enough:
                found |= self.judgements.grades[each.first]
        return found | self.people

    @property
    def objections(self) -> list[str]:
        """Why the judgements of people are no evidence; nothing if they are."""
        found = []
        if len(self.people) < FEWEST:
            found.append(f"too few: {FEWEST - len(self.people)} more judgements are expected")
        of_people = [each for each in self.agreements if not each.is_of_model]
        return found + [f"{each}" for each in of_people if each.is_known and not each.is_enough]

    @property
    def notes(self) -> list[str]:
        """Second grades, models that are left out, and what does not count."""
        given = self.judgements
        found = [
            f"{name} gave {changed:,} documents a second grade: the later one counts"
            for name, changed in given.changed.items()
            if changed
        ]
        found += [
            f"{each}: its judgements are not among the qrels"
            if each.is_known
            else f"{each.first} is not among the qrels until people have judged {each.missing:,} "
            "more of its documents"
            for each in self.agreements
            if each.is_of_model and not each.is_enough
        ]
        if given.num_gone:
            found.append(
                f"{given.num_gone:,} judgements do not count: the pool lacks their documents"
            )
        if given.num_damaged:
            found.append(f"{given.num_damaged:,} lines are damaged and do not count")
        return found


def sum_up(folder: Path, pool: Pool) -> Verdict:
    """Read what was judged of a pool, and write the queries and qrels that follow from it.

    :raises CollectionError: When the judgements cannot be read.
    :raises StorageError: When the disk refuses.
    """
    with disk.locked(folder):  # so that nobody writes what has been read before
        verdict = Verdict.on(read_judgements(folder, pool.pairs))
        write_collection(folder, pool, verdict.grades)
    return verdict


def kappa(graded: Sequence[tuple[int, int]]) -> float:
    """Cohen's kappa of two judges with linear weights: a difference of two counts twice.

    J. Cohen, Weighted kappa (1968). Not a number where both always give the same grade.
    """
    first, second = (Counter(grades) for grades in zip(*graded, strict=True))
    observed = sum(abs(one - other) for one, other in graded) / len(graded)
    by_chance = (
        sum(
            abs(one - other) * count * of_other
            for one, count in first.items()
            for other, of_other in second.items()
        )
        / len(graded) ** 2
    )
    return 1 - observed / by_chance if by_chance else nan


def _agreement(
    first: str, second: str, of_first: dict[Pair, int], of_second: dict[Pair, int]
) -> Agreement:
    graded = [(grade, of_second[pair]) for pair, grade in of_first.items() if pair in of_second]
    return Agreement(first, second, len(graded), kappa(graded) if graded else nan)
