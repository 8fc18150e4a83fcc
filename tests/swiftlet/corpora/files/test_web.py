"""The text of web pages as they are shown, without the signs of Markdown in names."""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from swiftlet.corpora.files.web import web_parts
from swiftlet.errors import CollectionError
from tests.growth import grows_evenly

WORDS = "<p>Many words say here how the thing is used that this long page is about.</p>" * 3


def text_of(body: str) -> str:
    main = f"<h1>Title</h1>{WORDS}<h2>Part</h2>{WORDS}{body}{WORDS}"
    page = f"<html><head><title>T</title></head><body>{main}</body></html>"
    (part,) = web_parts(Path("page.html"), page.encode())
    return part.text


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("<p>Call queue.get_nowait() now.</p>", "Call queue.get_nowait() now."),
        ("<p>a_b * c [d] &lt;e&gt; ~f` g</p>", "a_b * c [d] <e> ~f` g"),
        ("<p>A path C:\\new_dir\\x and \\. too</p>", "A path C:\\new_dir\\x and \\. too"),
        ("<p>Use <code>a_b \\_ c</code> here_now</p>", "a_b \\_ c"),
        ("<pre>x = a\\_b\n* y_z</pre>", "x = a\\_b\n* y_z"),
        ("<ul><li>item_one</li><li>- two</li></ul>", "item_one"),
        ("<p>&gt; no quote_here</p>", "> no quote_here"),
        ("<p>1. no list_here</p>", "1. no list_here"),
        ("<p>H<sub>2</sub>O and CO<sub>2</sub></p>", "H2O and CO2"),
        ("<p>5 m<sup>2</sup>, 1<sup>st</sup>, n<sup>th</sup></p>", "5 m2, 1st, nth"),
        ("<p>10<sup>3</sup> and word<sup>1</sup></p>", "10^3 and word^1"),
        ("<details><summary>More_of it</summary><p>Hidden words.</p></details>", "More_of it"),
        ("<figure><img src='a' alt='Two bees'><figcaption>A caption</figcaption></figure>", "Two"),
        ("<figure><img src='a' alt='Two bees'><figcaption>A caption</figcaption></figure>", "A c"),
        ("<p>See <img src='a' alt='the arrow'> there</p>", "See the arrow there"),
        ("<div><img src='a' alt='Alone in a div'></div>", "Alone in a div"),
        ("<dl><dt>Term_one</dt><dd>Its sense<p>and more</p></dd></dl>", "Its sense"),
        ("<dl><dt>Term_one</dt><dd>Its sense<p>and more</p></dd></dl>", "Term_one"),
        ("<dl><dt>Term_one</dt><dd>Its sense<p>and more</p></dd></dl>", "and more"),
        ("<dl><div><dt>Grouped</dt><dd>Within a div</dd></div></dl>", "Within a div"),
        ("<p>Logo <img alt='Acme&#1; In&#x0b;c\x01'> here.</p>", "Logo Acme Inc here."),
        ("<p>Word<sup>&#11;1</sup></p>", "Word^1"),
        ("<p>Tick <label>the box</label> here</p>", "Tick the box here"),
        ("<fieldset><legend>Of fields</legend><p>Words of it</p></fieldset>", "Of fields"),
        ("<fieldset><legend>Of fields</legend><p>Words of it</p></fieldset>", "Words of it"),
        ("<textarea>Text that can change</textarea>", "Text that can change"),
        ("<p>So <math><mi>E</mi><mo>=</mo><msup><mi>c</mi><mn>2</mn></msup></math> holds.</p>",
         "So E = c 2 holds."),
        ("<p>Press<img alt='Enter'>now</p>", "Press Enter now"),
        ("<p>super<wbr>cali<span></span>fragile</p>", "supercalifragile"),
        ("<p>Tom &amp;amp; J &notin; &copy2026 &#x1F680;</p>", "Tom &amp; J ∉ ©2026 🚀"),
        ("<my-card><slot>of a component</slot></my-card>", "of a component"),
        ("<meter value=3>three of ten</meter>", "three of ten"),
        ("<table><tr><td rowspan=2>tall<td>b<tr><td>c</table>", "| tall | b |\n| c |"),
        ("<table><caption>Of a_b</caption><tr><td>cell_1</td></tr></table>", "cell_1"),
    ],
)  # fmt: skip
def test_text_is_read_as_it_is_shown(body, shown):
    assert shown in text_of(body)


FRENCH = "Le très bon café, déjà vu à la fenêtre."
READ_AS = "page.html is read as "


@pytest.mark.parametrize(
    ("head", "words", "encoding", "notes"),
    [
        ("", FRENCH, "cp1252", [READ_AS + "Windows-1252"]),
        ("", FRENCH, "utf-16", [READ_AS + "UTF-16"]),
        ("", FRENCH, "utf-16-le", [READ_AS + "UTF-16-LE"]),
        ("", FRENCH, "utf-16-be", [READ_AS + "UTF-16-BE"]),
        ("", FRENCH, "utf-8-sig", []),
        ("<meta charset='iso-8859-1'>", f"“{FRENCH}”", "cp1252", []),
        ("<meta charset=iso-8859-1>", FRENCH, "utf-8", []),
        ("<meta charset='utf-8'>", FRENCH, "cp1252", [READ_AS + "Windows-1252"]),
        ("<meta charset=hex>", FRENCH, "cp1252", [READ_AS + "Windows-1252"]),
        ("<meta http-equiv=a content='text/html; charset=koi8-r'>", "Привет, мир", "koi8-r", []),
        ("<meta charset=iso-2022-jp>", "日本語の文章", "iso2022_jp", []),
        ("<meta charset=gb2312>", "朱镕基", "gbk", []),
        ("<?xml version='1.0' encoding='Shift_JIS'?>", "日本語の文章", "shift_jis", []),
    ],
)
def test_a_page_is_decoded_as_it_declares_or_as_a_text_is(head, words, encoding, notes):
    page, told = f"{head}<title>{words}</title><p>{words}</p>", list[str]()
    (part,) = web_parts(Path("page.html"), page.encode(encoding), told.append)
    assert (part.title, part.text, told) == (words, words, notes)


def test_a_page_with_a_bad_byte_is_read_and_named():
    told = list[str]()
    page = f"<p>{FRENCH}</p>".encode() + b"<p>b\xe9d</p>"
    (part,) = web_parts(Path("page.html"), page, told.append)
    assert part.text == f"{FRENCH}\n\nb\ufffdd"
    assert told == ["page.html has bytes that are not valid UTF-8"]


def test_a_page_of_which_the_codec_fails_is_refused_by_name():
    page = f"<meta charset=idna><p>{FRENCH}</p>".encode("cp1252")
    with pytest.raises(CollectionError, match=r"^page\.html: cannot be read: .*idna"):
        list(web_parts(Path("page.html"), page))


def test_character_data_of_xhtml_is_text():
    page = b"<html xmlns='a'/>\n<body><p>para <![CDATA[cdata <b> & pangolin]]></p></body></html>"
    (part,) = web_parts(Path("page.xhtml"), page)
    assert part.text == "para cdata <b> & pangolin"


@pytest.mark.parametrize("tag", ["font color=red", "section", "ul><li", "b"])
def test_text_of_nested_elements_is_read_whole_or_refused(tag):
    def nested(count: int) -> bytes:
        page = "".join(f"<{tag}>Paragraph number word{n} of an old page.<br>" for n in range(count))
        return f"<html><body>{page}".encode()

    for count in (300, 400, 680):
        (part,) = web_parts(Path("page.html"), nested(count))
        assert all(f"word{n} of" in part.text for n in range(count))
    with pytest.raises(CollectionError, match=r"^page\.html: its elements are nested too deeply"):
        list(web_parts(Path("page.html"), nested(2_100)))


def test_text_outside_of_blocks_is_not_lost():
    loose = "Words that stand alone. " * 40
    page = (
        f"<html><body><nav>Menu</nav><h2>Old</h2>{loose}<br><b>-v</b> is verbose.<!-- c -->After."
        "<pre>code\n x</pre>tail<footer>Imprint</footer></body></html>"
    )
    (part,) = web_parts(Path("page.html"), page.encode())
    for words in ("## Old", loose.strip(), "is verbose.After.", "code\n x", "tail"):
        assert words in part.text
    assert "Menu" not in part.text
    assert "Imprint" not in part.text


def test_loose_text_at_the_beginning_is_not_lost():
    lines = "".join(f"Paragraph number word{n} of an old page.<br>" for n in range(20))
    (part,) = web_parts(Path("page.html"), f"<html><body>{lines}".encode())
    assert all(f"word{n} of" in part.text for n in range(20))


def of_body(body: str) -> tuple[str, str]:
    (part,) = web_parts(Path("page.html"), f"<html><body>{body}</body></html>".encode())
    return part.title, " ".join(part.text.split())


# Mixed content as the HTML standard allows it: text and phrasing content beside blocks.
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>a</p>loose<br>more<div>b</div>", "a loose more b"),
        ("<section><p>a</p></section><b>bold</b> tail", "a bold tail"),
        ("<blockquote><time>1999</time><p>a</p></blockquote>", "1999 a"),
        ("<ul><li>one<div>two</div>three<p>four</p>five</li></ul>", "- one two three four five"),
        ("<p>a <ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby> b</p>", "a 漢(kan) b"),
        ("<hgroup><p>over</p><h1>Head</h1></hgroup><p>a</p>", "over # Head a"),
        ("<search><p>a</p></search><p>b <output>4</output> <data value=1>c</data></p>", "a b 4 c"),
        ("<p>short <a name=x></a>text</p><p>b</p>", "short text b"),
        ("<h2><a id=x></a>Head</h2><p>a</p><h2>B</h2><p>b</p>", "## Head a ## B b"),
        ("<table><tr><td>a<search>b<p><time>5 May</time></p></search></table>", "| a b 5 May |"),
        ("<fieldset>x<code></code>y</fieldset><p>a</p>", "xy a"),
        ("<main><address>a <a href=b>b</a><p>c</p></address></main>", "a b c"),
    ],
)
def test_text_beside_blocks_is_read(body, text):
    assert of_body(body)[1] == text


def test_a_paragraph_that_looks_like_a_heading_is_none():
    body = "<p># no heading</p><p>a</p><h2>Head</h2><p>b</p>"
    assert of_body(body) == ("Head", "\\# no heading a ## Head b")
    deep = "<div>" * 250
    assert of_body(f"{deep}<p># no heading</p><p>a</p>") == ("page", "\\# no heading a")


def test_lists_within_lists_of_a_deep_page_are_lists():
    page = f"<html><body>{'<div>' * 250}<ol><li>a<ul><li>b<li><p>c</ul><li>d</ol>e"
    (part,) = web_parts(Path("page.html"), page.encode())
    assert part.text == "- a\n  - b\n  - c\n- d\n\ne"


# Each block stands within a long page, and all of its text is part of the main text.
@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ("<div>Herons wade.</div>", "Herons wade."),
        ("<div><span>Herons</span> <em>wade</em>.</div>", "Herons wade."),
        ("<div><div>Herons</div></div>wade", "Herons\n\nwade"),
        ("<div class=docblock>Herons wade.</div>", "Herons wade."),
        ("<div role=note>Herons wade.</div>", "Herons wade."),
        ("<menu><li>Herons</li></menu>", "- Herons"),
        ("<div><math><mi>h</mi><mo>+</mo><mn>1</mn></math></div>", "h + 1"),
        ("<center>Herons</center>", "Herons"),
        ("<fieldset>Herons</fieldset>", "Herons"),
        ("<x-card>Herons</x-card>", "Herons"),
        ("<p><a href=x>Herons</a></p>", "Herons"),
        ("<ul><li class=nav-x><a class=nav-x href=x>Herons</a></li></ul>", "- Herons"),
        ("<div class=caption><p class=author>Herons</p></div>", "Herons"),
        ("<p class=comment id=meta>Herons</p>", "Herons"),
        ("<div class=sidebar>Herons wade. <a href=x>More</a></div>", "Herons wade. More"),
        ("<header><h2>Herons</h2></header>", "## Herons"),
        ("<form><h2>Herons</h2><p>wade</p></form>", "## Herons\n\nwade"),
        ("<p>Write &amp;lt; and &amp;nbsp; and &amp;eacute;</p>",
         "Write &lt; and &nbsp; and &eacute;"),
        ("<p><code>&amp;lt;b&amp;gt;</code></p>", "&lt;b&gt;"),
        ("<pre>a &amp;lt; b\n  &amp;amp; c</pre>", "```\na &lt; b\n  &amp; c\n```"),
        ("<p>un<em>believ</em>able <b>H</b>yper<b>T</b>ext <u>F</u>ile</p>",
         "unbelievable HyperText File"),
        ("<p>the <code>Counter</code>s, <i>n</i>-gram, <acronym>A</acronym>s</p>",
         "the Counters, n-gram, As"),
        ("<h2>The <code>spam_eggs</code> <em>mod</em>ule</h2>", "## The spam_eggs module"),
        ("<map name=m><area alt='The North' href=n><area href=o></map>", "The North"),
        ("<details><summary><h3>Herons</h3></summary>wade</details>", "### Herons\n\nwade"),
        ("<h2>Herons<a class=headerlink href='#h'>¶</a></h2>", "## Herons"),
        ("<p>See <a href='#h'>herons</a> or <a href=x>#</a></p>", "See herons or #"),
        ("<h2>Herons<br>wade</h2>", "## Herons wade"),
        ("<ul><li><br>Herons<br>wade</li></ul>", "- Herons\n\nwade"),
        ("<pre>a<br>b<div> c</div>d\n\n<b>e</b></pre>f", "```\na\nb\n c\nd\n\ne\n```\n\nf"),
        ("<pre>```\na</pre>", "````\n```\na\n````"),
        ("<p>Tick <input> the <svg></svg>box<script>x</script>es</p>", "Tick the boxes"),
        ("<table><tr><th>a<td>b<br>c<tr><td><td>d</table>", "| a | b c |\n|  | d |"),
        ("<table><tr><td><h2>a</h2>b<td>c</table>", "## a\n\nb\n\nc"),
        (f"<table><tr><td><p>a<p>{'b' * 1_000}</table>", f"a\n\n{'b' * 1_000}"),
    ],
)  # fmt: skip
def test_each_block_of_a_long_page_is_read_as_it_is_shown(block, shown):
    words = "".join(f"<p>Paragraph {n} is about kites and bridges.</p>" for n in range(20))
    long = f"{words}{block}{words}"
    for page in (block, f"<html><body>{long}", f"<title>T</title><main>{long}</main>"):
        (part,) = web_parts(Path("page.html"), page.encode())
        assert f"\n\n{shown}\n\n" in f"\n\n{part.text}\n\n"


NOT_READ = [
    "<nav>Menu</nav>", "<header>Menu</header>", "<footer>Menu</footer>", "<aside>Menu</aside>",
    "<form>Menu</form>", "<div role=navigation>Menu</div>", "<p role=contentinfo>Menu</p>",
    "<div class='top-nav x'><a href=x>Menu</a></div>", "<ul id=Breadcrumbs><li><a>Menu</a></ul>",
    "<iframe>Menu</iframe>", "<template>Menu</template>", "<noscript><p>Menu</p></noscript>",
    "<video>Menu</video>", "<button>Menu</button>", "<svg><text>Menu</text></svg>",
]  # fmt: skip


@pytest.mark.parametrize("element", NOT_READ)
def test_navigation_and_what_is_not_shown_are_left_out(element):
    for page in (f"<p>a</p>{element}<p>b</p>", f"{'<div>' * 250}<p>a</p>{element}<p>b</p>"):
        (part,) = web_parts(Path("page.html"), page.encode())
        assert part.text == "a\n\nb"


def test_of_a_page_without_a_main_text_all_is_read():
    page = b"<title>A\n title</title><script>x</script><nav>Menu <a href=x>one</a></nav>"
    (part,) = web_parts(Path("page.html"), page)
    assert (part.title, part.text) == ("A title", "Menu one")


TAGS = ["p", "div", "b", "sub", "sup", "li", "ul", "pre", "code", "dl", "dt", "dd", "h2", "table"]
TAGS += ["td", "tr", "figure", "figcaption", "a", "nav", "script", "summary", "details", "img"]


@settings(max_examples=50)
@given(st.lists(st.sampled_from(TAGS) | st.just("/") | st.text("ab_<&*`\\\x00é", max_size=5)))
def test_any_page_is_read_without_an_error(pieces):
    open_tags: list[str] = []
    page = ""
    for piece in pieces:
        if piece in TAGS:
            open_tags.append(piece)
            page += f"<{piece} alt='x'>"
        elif piece == "/" and open_tags:
            page += f"</{open_tags.pop()}>"
        else:
            page += piece
    assume(4 * page.count("\0") <= len(page))  # else it is no text, and is refused
    for part in web_parts(Path("page.html"), page.encode()):
        assert part.text.strip()


def within(name: str, content: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(content, min_size=1, max_size=3).map(
        lambda parts: f"<{name}>{''.join(parts)}</{name}>"
    )


def one_of(names: str, content: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of([within(name, content) for name in names.split()])


# As the HTML standard nests elements; a @ becomes a word of its own.
LINES = st.recursive(
    st.just(" @ "), lambda inner: one_of("a b code em kbd span sub", inner), max_leaves=3
)
BLOCKS = st.recursive(
    one_of("p h2 h3", LINES) | within("pre", st.just(" @ ")),
    lambda blocks: st.one_of(
        one_of("article blockquote center div fieldset figure section", blocks | LINES),
        one_of("ul ol menu", within("li", blocks | LINES)),
        within("table", within("tr", within("td", blocks | LINES))),
        within("dl", st.tuples(within("dt", LINES), within("dd", blocks | LINES)).map("".join)),
        within("details", st.tuples(within("summary", LINES), blocks | LINES).map("".join)),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    "note",
    [
        '<aside class="footnote-list"><aside class="footnote" role="note">A.</aside></aside>',
        '<aside role="doc-footnote">A.</aside>', '<aside role=note><p>A.</aside>',
        '<aside class="admonition warning">A.</aside>', '<aside class="callout">A.</aside>',
    ],
)  # fmt: skip
def test_a_note_in_an_aside_is_text(note):
    (part,) = web_parts(Path("page.html"), f"<p>a</p>{note}<aside class=bar>Menu</aside>".encode())
    assert part.text == "a\n\nA."


@settings(max_examples=20)
@given(st.lists(BLOCKS | LINES, max_size=4), st.sampled_from([0, 10, 40]))
@example([" @ <code> @  @  @  @ </code> @ "], 0)
@example(["<p><code><b> @ </b></code> @ </p>"], 0)
@example(["<table><tr><td><blockquote><p>@</p></blockquote><p>@ <b>@</b></p></td></tr></table>"], 0)
@example(["<section> @ </section>", "<b> @  @  @  @  @  @  @ </b>"], 0)
@example(["<div> @ </div>", "<p><a href=x> @ </a></p>"], 40)
def test_all_words_of_a_page_are_read(pieces, paragraphs):
    pieces = [piece + "<p>An ordinary paragraph about @.</p>" * paragraphs for piece in pieces]
    count, numbers = "".join(pieces).count("@"), itertools.count()
    page = re.sub("@", lambda _: f"word{next(numbers)}x", "".join(pieces))
    parts = web_parts(Path("page.html"), f"<html><body>{page}<p>The end.</p></body>".encode())
    text = "".join(part.text for part in parts)
    assert [number for number in range(count) if f"word{number}x" not in text] == []


@pytest.mark.parametrize(
    "piece",
    [
        "<p>w</p>",
        "w_ ",
        "<pre>```\nx</pre>",
        "<p>`a</p>",
        "<b>x</b>",
        "a<sup>x</sup>",
        "<tr><td>x",
        "<table><tr><td rowspan=100000 colspan=1000>x</td></tr></table>",
        "<pre>a<br></pre>",
        "<p class=nav>x</p>",
    ],
)
def test_the_time_grows_with_the_page(piece):
    def read(count: int) -> None:
        list(web_parts(Path("page.html"), f"<html><body>{piece * count}</body></html>".encode()))

    assert grows_evenly(read, 2_000)


def test_the_time_of_an_element_with_many_attributes_grows_evenly():
    def read(count: int) -> None:
        attributes = " ".join(f"a{number}" for number in range(count))
        with pytest.raises(CollectionError, match="an element has more than 1,000 attributes"):
            list(web_parts(Path("page.html"), f"<p {attributes}>x</p>".encode()))

    assert grows_evenly(read, 20_000)


@pytest.mark.parametrize("tag", ["div class=nav", "sup", "header", "td", "pre"])
def test_the_time_does_not_grow_with_the_depth_times_the_length(tag):
    def read(count: int) -> None:
        page = f"<{tag}>" * (count // 100) + "x <b>x</b> " * count + "<h2>a</h2>"
        list(web_parts(Path("page.html"), page.encode()))

    assert grows_evenly(read, 10_000)
