"""Whether another weight or an adapted query encoder finds more, by judgements."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from swiftlet.evaluation.significance import SIGNIFICANT, PairedTest

LEAST_KEPT = 0.98
"""Of today's nDCG@10 of held-out sentences; an encoder that keeps less has lost on other texts."""

REPORT = "report.md"

_MANY_UNJUDGED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Another way to search an index, compared with today's on held-out queries."""

    name: str
    encoder: bool
    """Whether it is an encoder of this name, or else a weight."""

    test: PairedTest
    p_value: float
    """As `holm` corrects it for all candidates."""

    unjudged: float
    """The share of its ten best documents that nobody has judged; they count as not relevant."""

    kept: float | None = None
    """The share of today's nDCG@10 of held-out sentences; None where it was not measured."""

    @property
    def is_better(self) -> bool:
        """Whether it finds significantly more, and loses nothing on sentences."""
        return (
            self.test.difference > 0
            and self.p_value <= SIGNIFICANT
            and (self.kept is None or self.kept >= LEAST_KEPT)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """All candidates, and what today's search finds."""

    index: Path
    judgements: Path
    out: Path
    encoder: Path | None
    """The query encoder of searches today, if it is not the index's own."""

    mode: str
    weight: float
    """The weight of hybrid searches today."""

    num_learnt: int
    """Judged queries that candidates learnt from; all others are held out."""

    unjudged: float
    """As of a candidate, for today's search."""

    candidates: Sequence[Candidate]

    @property
    def best(self) -> Candidate | None:
        """The one to publish; None keeps today's search."""
        better = [each for each in self.candidates if each.is_better]
        return max(better, key=lambda each: each.test.mean, default=None)

    @property
    def verdict(self) -> str:
        """What to do."""
        if self.best is None:
            return "keep what you have: nothing is significantly better on the held-out queries"
        test = self.best.test
        return (
            f"publish {self.best.name}: nDCG@10 of {test.num_queries:,} held-out queries is "
            f"{test.mean:.3f} instead of {test.baseline_mean:.3f}"
        )

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What each command is for, and the command."""
        if self.best is None:
            return []
        today = "" if self.encoder is None else f" --encoder {self.encoder}"
        if not self.best.encoder:
            tune = f"swiftlet tune {self.index} --weight"
            weight = self.best.name.removeprefix("weight ")
            challenge = f"SWIFTLET_CHALLENGER_WEIGHT={weight}"
            found = [("publish", f"{tune} {weight}"), ("go back", f"{tune} {self.weight:g}")]
        else:
            encoder = self.out / self.best.name
            challenge = f"SWIFTLET_CHALLENGER_ENCODER={encoder}"
            serve = f"swiftlet serve {self.index}"
            found = [("publish", f"{serve} --encoder {encoder}"), ("go back", f"{serve}{today}")]
        compare = f"SWIFTLET_QUERY_LOG=queries {challenge} swiftlet serve {self.index}{today}"
        return [*found, ("let clicks decide first", compare)]

    def advice(self) -> Iterator[str]:
        """What would make the next verdict better."""
        for each in self.candidates:
            if each.kept is not None and each.kept < LEAST_KEPT:
                yield (
                    f"{each.name} keeps less than {LEAST_KEPT:.0%} of the sentences that today's "
                    "search finds: it has lost on texts unlike the judged queries."
                )
            if each.encoder and each.unjudged > self.unjudged + _MANY_UNJUDGED:
                yield (
                    f"Nobody has judged {each.unjudged:.0%} of what {each.name} finds, and "
                    f"{self.unjudged:.0%} of what today's search finds. Judge these documents, and "
                    f"try again: swiftlet judge {self.judgements} --index {self.index} "
                    f"--encoder {self.out / each.name}"
                )
        if self.best is None:
            yield "More judged queries show smaller differences."

    def table(self) -> list[list[str]]:
        """A row for each candidate, below the row of today's search."""
        test = self.candidates[0].test
        share = f"{self.unjudged:.0%}"
        rows = [["today", f"{test.baseline_mean:.4f}", "", "", "", share]]
        for each in self.candidates:
            kept = "" if each.kept is None else f"{each.kept:.1%}"
            figures = f"{each.test.mean:.4f}", f"{each.test.difference:+.4f}", f"{each.p_value:.1g}"
            rows.append([each.name, *figures, kept, f"{each.unjudged:.0%}"])
        return rows

    def page(self) -> str:
        """The report, as Markdown."""
        rows = [["search", *COLUMNS], ["---", *["---:"] * len(COLUMNS)], *self.table()]
        about = (
            f"{self.num_learnt:,} judged queries were learnt from, and "
            f"{self.candidates[0].test.num_queries:,} were held out. The two have no relevant "
            f"document in common. The table has the nDCG@10 of {self.mode} search for the queries "
            "that were held out."
        )
        return "\n".join(
            [
                f"# Another search of {self.index.resolve().name}",
                "",
                about,
                "",
                *(f"| {' | '.join(row)} |" for row in rows),
                "",
                *(f"- {name}: {meaning}." for name, meaning in COLUMNS.items()),
                "",
                "## Verdict",
                "",
                f"{self.verdict[0].upper()}{self.verdict[1:]}.",
                "",
                *(f"- To {aim}: `{command}`" for aim, command in self.commands),
                *(f"- {sentence}" for sentence in self.advice()),
                "",
            ]
        )


COLUMNS = {
    "nDCG@10": "the mean over the held-out queries",
    "difference": "beside today's search",
    "p": "of a paired t-test over the queries, corrected for all rows by Holm's method",
    "sentences": "the share of today's nDCG@10 of held-out sentences, each a query for its "
    f"document, by meaning alone; below {LEAST_KEPT:.0%} nothing is published",
    "unjudged": "the share of the ten best documents that nobody has judged, so that they count as "
    "not relevant",
}
