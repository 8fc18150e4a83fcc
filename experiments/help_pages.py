"""LibreOffice's help as a collection with the same documents and queries in each language."""

from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from lxml import html  # type: ignore[import-untyped]

from measuring.experiment import settings_beside
from measuring.results import Figures

SETTINGS = settings_beside(__file__)
LANGUAGES: list[str] = SETTINGS["languages"]

Page = tuple[str, Mapping[str, str]]


def pages_of(folder: Path, kinds: Sequence[str]) -> dict[str, Page]:
    """The title of each page of some kinds in a language, and its paragraphs by their names."""
    found: dict[str, Page] = {}
    for path in sorted(chain(*(folder.glob(f"*/{kind}/*.html") for kind in kinds))):
        tree = html.fromstring(path.read_bytes().decode("utf-8"))
        for hidden in tree.xpath("//*[@hidden]"):
            hidden.drop_tree()
        blocks = tree.xpath("//div[@id='DisplayArea']//*[self::p or self::h2 or self::h3][@id]")
        texts = {each.get("id"): " ".join(each.text_content().split()) for each in blocks}
        if titles := tree.xpath("//h1"):
            title = " ".join(titles[0].text_content().split())
            found[f"{path.relative_to(folder)}"] = title, {k: v for k, v in texts.items() if v}
    return found


def collection(options: Namespace) -> Figures:
    """The same documents and queries in each language; `rows` has the documents that answer."""
    folders = {each: options.data / SETTINGS["folders"].get(each, each) / "text"
               for each in LANGUAGES}  # fmt: skip
    pages = {each: pages_of(folder, SETTINGS["kinds"]) for each, folder in folders.items()}
    others = [pages_of(folder, SETTINGS["others"]) for folder in folders.values()]
    lines = (
        " ".join([title, *texts.values()]) for each in others for title, texts in each.values()
    )
    (options.work / "other-pages.txt").write_text("\n".join(lines), "utf-8")
    english = pages["en"]
    names = [
        name for name in english
        if all(is_translated(english[name], pages[each].get(name), each) for each in LANGUAGES)
    ]  # fmt: skip
    found: Figures = {"documents": {}, "queries": {}, "rows": {}, "others": sum(map(len, others))}
    for each in LANGUAGES:
        titles = [pages[each][name][0] for name in names]
        most = SETTINGS["of_ideographs" if each in {"zh", "ja"} else "characters"]
        texts = (" ".join(pages[each][name][1].values()) for name in names)
        found["documents"][each], times = [text[:most] for text in texts], Counter(titles)
        found["rows"][each] = [
            row for row, name in enumerate(names)
            if "/guide/" in name and times[titles[row]] == 1
            and (each == "en" or titles[row] != english[name][0])
        ]  # fmt: skip
        found["queries"][each] = [titles[row] for row in found["rows"][each]]
    return found


def is_translated(english: Page, page: Page | None, language: str) -> bool:
    if page is None or len(" ".join(page[1].values())) < SETTINGS["least"]:
        return False
    same = sum(english[1].get(name) == text for name, text in page[1].items())
    return language == "en" or same <= (1 - SETTINGS["translated"]) * len(page[1])
