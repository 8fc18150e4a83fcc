import csv
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from swiftlet.cli.main import app
from swiftlet.relevance.log import Click, LoggedSearch, LogWriter
from swiftlet.relevance.report import Report, read_report, report_on, two_shares_test
from swiftlet.relevance.tables import plot_of, sentences_of, tables_of, write_tables
from swiftlet.search.searcher import Searcher

DAY = 86_400.0
LINES = {"dense": 0.4}


class Entries:
    """A log in memory."""

    num_damaged = 0

    def __init__(self, *entries: LoggedSearch | Click) -> None:
        self._entries = sorted(entries, key=lambda each: each.time)

    def searches(self) -> Iterable[LoggedSearch]:
        return (each for each in self._entries if isinstance(each, LoggedSearch))

    def clicks(self) -> Iterable[Click]:
        return (each for each in self._entries if isinstance(each, Click))


def searched(query: str, at: float = 0.0, score: float = 0.5, **fields: object) -> LoggedSearch:
    values = {
        "id": f"{query}@{at}",
        "session": "",
        "mode": "dense",
        "index": "1",
        "hits": [("a", score), ("b", score / 2)],
        "milliseconds": {"encode": 1.0, "dense": 2.0},
    }
    return LoggedSearch(time=at, query=query, **{**values, **fields})


def report(*entries: LoggedSearch | Click) -> Report:
    return report_on(Entries(*entries), LINES)  # type: ignore[arg-type]


def names(queries: Iterable[object]) -> list[str]:
    return [each.query for each in queries]  # type: ignore[attr-defined]


def test_searches_for_a_query_are_counted_whatever_its_case() -> None:
    found = report(searched("Rain", 1), searched("rain", 2), searched("snow", 3))
    assert [(each.query, each.searches) for each in found.frequent] == [("Rain", 2), ("snow", 1)]
    assert found.searches == 3
    assert found.frequent[0].milliseconds == 3.0


def test_searches_below_the_line_of_their_mode_or_without_documents_are_weak() -> None:
    found = report(
        searched("good", score=0.4),
        searched("below", score=0.39),
        searched("nothing", hits=[], mode="lexical"),
        searched("other scores", score=0.01, is_plain=False),
        searched("no line", score=0.01, mode="lexical"),
    )
    assert {*names(found.weak)} == {"below", "nothing"}


def test_another_query_of_the_same_client_soon_after_is_asked_anew() -> None:
    found = report(
        searched("rain", 0, session="s"),
        searched("snow", 59, session="s"),
        searched("hail", 120, session="s"),
        searched("fog", 121, session="other"),
    )
    assert found.anew == [(("rain", "snow"), 1)]


def test_what_was_opened_is_not_asked_anew() -> None:
    found = report(
        searched("rain", 0, session="s"),
        Click(time=5, id="rain@0", document_id="b"),
        searched("snow", 10, session="s"),
    )
    assert found.anew == []
    (rain, _) = found.frequent
    assert (rain.clicked, rain.ranks) == (1, [2])


def test_beginnings_of_a_query_that_is_typed_count_nowhere() -> None:
    found = report(
        searched("snow", 0, session="s"),
        searched("ra", 10, session="s"),
        searched("rain", 11, session="s"),
        searched("rai", 12, session="other"),
    )
    assert (found.searches, found.typed) == (3, 1)
    assert found.anew == [(("snow", "rain"), 1)]


def test_clicks_on_documents_that_were_never_shown_are_not_counted() -> None:
    found = report(
        searched("rain", 0),
        Click(time=1, id="rain@0", document_id="a"),
        Click(time=1, id="rain@0", document_id="a"),
        Click(time=1, id="rain@0", document_id="never shown"),
        Click(time=1, id="no search", document_id="a"),
    )
    assert (found.clicks, found.foreign_clicks) == (1, 2)
    assert "2 clicks are not counted" in " ".join(sentences_of(found))


def test_further_documents_of_a_search_are_no_search_of_their_own() -> None:
    further = searched("rain", 5, offset=10, id="next", hits=[("c", 0.3)])
    found = report(searched("rain", 0), further, Click(time=9, id="next", document_id="c"))
    (rain,) = found.frequent
    assert (rain.searches, rain.ranks) == (1, [11])


@pytest.mark.parametrize(("days", "num_periods"), [(0.5, 13), (10, 11), (300, 43)])
def test_time_is_divided_into_few_periods(days: float, num_periods: int) -> None:
    times = [hour * 3600.0 for hour in range(int(days * 24) + 1)]
    found = report(*(searched("rain", at) for at in times))
    assert sum(each.searches for each in found.periods) == len(times)
    assert abs(len(found.periods) - num_periods) <= 1


def test_a_growing_share_of_weak_searches_is_named() -> None:
    usual = [searched("rain", at * 60, score=0.9) for at in range(1_000)]
    late = [searched("new", 3 * DAY + at, score=0.1) for at in range(100)]
    assert "the share differs" in report(*usual, *late).drift
    assert "does not differ" in report(*usual, searched("rain", 3 * DAY, score=0.9)).drift
    assert "no earlier" in report(searched("rain")).drift


def test_the_test_of_two_shares_is_the_textbooks() -> None:
    # 15 of 100 and 30 of 100: z = 2.543, by hand.
    assert two_shares_test(15, 100, 30, 100) == pytest.approx(0.011, abs=0.0005)
    assert two_shares_test(0, 10, 0, 20) == 1


def test_words_that_no_document_has_are_named(small_searcher: Searcher, tmp_path: Path) -> None:
    log = LogWriter(tmp_path, most_bytes=2**20, days=30)
    log.append([searched("volcano zyxwv"), searched("Zyxwv lava", 1), searched("hmac:0f1e2d", 2)])
    log.close()
    found = read_report(tmp_path, small_searcher)
    assert ("zyxwv", 2) in found.new_words
    assert "0f1e2d" not in dict(found.new_words)
    assert "volcano" not in dict(found.new_words)


def test_tables_are_written_as_files_that_other_programs_read(tmp_path: Path) -> None:
    found = report(searched('a "quoted", query'), searched("rain", DAY), searched("rain", 2 * DAY))
    write_tables(found, tmp_path / "out")
    with (tmp_path / "out" / "frequent.csv").open(newline="") as file:
        rows = [*csv.reader(file)]
    assert rows[1][:2] == ["rain", "2"]
    assert rows[2][0] == 'a "quoted", query'
    plot = ElementTree.parse(tmp_path / "out" / "times.svg")
    bars = plot.findall(".//{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 1 + 2 * 3
    assert {path.stem for path in (tmp_path / "out").glob("*.csv")} == {
        each.name for each in tables_of(found)
    }


def test_a_log_without_a_search_gives_no_table() -> None:
    found = report()
    assert tables_of(found) == []
    assert "Searches: 0" in sentences_of(found)[0]
    ElementTree.fromstring(plot_of(found.periods))


def test_the_command_prints_the_report_and_writes_it(small_index: Path, tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log", most_bytes=2**20, days=30)
    log.append([searched("volcano [bold]"), searched("lava", 1, hits=[])])
    log.close()
    arguments = ["report", f"{small_index}", "--log", f"{tmp_path / 'log'}"]
    result = CliRunner().invoke(app, [*arguments, "--out", f"{tmp_path / 'out'}"])
    assert result.exit_code == 0, result.output
    assert "volcano [bold]" in result.output
    assert (tmp_path / "out" / "weak.csv").is_file()
    result = CliRunner().invoke(app, ["report", f"{small_index}", "--log", f"{tmp_path / 'no'}"])
    assert result.exit_code == 2


def test_clicks_on_mixed_answers_say_which_way_they_prefer() -> None:
    of_duel = {"challenger": "weight 0.5", "teams": "AB", "hits": [("a", 1.0), ("b", 0.9)]}
    asked = [searched(f"query {n}", n, id=f"{n}", session=f"{n}", **of_duel) for n in range(20)]
    clicks = [Click(time=n + 0.5, id=f"{n}", document_id="b") for n in range(20)]
    found = report(*asked, searched("plain", 50), *clicks)
    assert "prefer the challenger (weight 0.5) in 20 of 20 searches" in sentences_of(found)[-1]
    assert "so it is better (p < 0.001" in sentences_of(found)[-1]
    (table,) = [each for each in tables_of(found) if each.name == "challengers"]
    assert table.rows == [("weight 0.5", "20", "20", "20", "0")]
    assert not report(searched("plain")).duels
