"""Tables of pages, in Markdown."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the first of which is the head."""
    head, *others = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|---" * len(rows[0]) + "|", *others])
