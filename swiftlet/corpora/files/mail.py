"""E-mails: one in a file, many in a mailbox, or one that Outlook has saved."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.header import decode_header
from email.message import Message
from email.utils import parsedate_to_datetime
from itertools import islice
from pathlib import Path

from swiftlet.corpora.encodings import decoded
from swiftlet.corpora.files.compound import CompoundFile
from swiftlet.corpora.files.text import Note, Part
from swiftlet.corpora.files.web import web_parts
from swiftlet.corpora.lines import LineError
from swiftlet.errors import CollectionError

_DATE = (
    rb"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [\d ]{0,4}"
    rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b[^\n]{1,40}:\d\d"
)
# A paragraph may begin with "From ", too; what the first line begins with is no paragraph.
_FROM = re.compile(
    rb"\A(?:\xef\xbb\xbf)?From [^\n]*\n|^\r?\nFrom [^\n]{0,300}?" + _DATE + rb"[^\n]*\n",
    re.MULTILINE,
)
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_LONGEST_HEADER = 10_000
_MOST_NAMED = 5
MOST_PARTS = 1_000
"""Of an e-mail that are read."""

_NAME_AND_ADDRESS = re.compile(r'\s*+"?([^"<>]*+)"?\s*+<([^<>]*)>')
_PROPERTIES = "__properties_version1.0"
_HEAD_OF_PROPERTIES, _HEAD_OF_RECIPIENT = 32, 8
_RECIPIENTS_KIND = b"\3\0\x15\x0c"
_OUTLOOKS_FIRST_DAY = datetime(1601, 1, 1, tzinfo=UTC)


def message_parts(path: Path, content: bytes, note: Note) -> Iterator[Part | CollectionError]:
    """The document of an e-mail; an error names its attachments, which are not read."""
    attached = list[str]()
    yield from _message(path, message_from_bytes(content), note, {}, attached)
    yield from _unread(path, attached)


def mailbox_parts(path: Path, content: bytes, note: Note) -> Iterator[Part | CollectionError]:
    """The e-mails of a mailbox: each begins, after an empty line, with "From ADDRESS DATE"."""
    starts = [found.span() for found in _FROM.finditer(content)]
    if not starts:
        raise ValueError('no line is "From ADDRESS DATE"')
    if content[: starts[0][0]].strip():
        starts.insert(0, (0, 0))
    ends, attached = [*(start for start, _ in starts[1:]), len(content)], list[str]()
    for number, ((_, start), end) in enumerate(zip(starts, ends, strict=True), start=1):
        message = message_from_bytes(_QUOTED_FROM.sub(rb"\1", content[start:end]))
        place = {"message": number, "messages": len(starts)}
        yield from _message(path, message, note, place, attached)
    yield from _unread(path, attached)


def _message(
    path: Path, message: Message, note: Note, place: Mapping[str, int], attached: list[str]
) -> Iterator[Part]:
    plain, rich = list[str](), list[str]()
    parts = [*islice(message.walk(), MOST_PARTS + 1)]
    if len(parts) > MOST_PARTS:
        attached.append(f"all parts after {MOST_PARTS:,}")
    for part in parts[:MOST_PARTS]:
        kind = part.get_content_type()
        if part.is_multipart():
            continue
        if part.get_content_disposition() == "attachment" or not kind.startswith("text/"):
            attached.append(_header(part.get_filename()) or kind)
            continue
        content = part.get_payload(decode=True)
        if isinstance(content, bytes):
            text = _text(content, part.get_content_charset())
            (rich if kind == "text/html" else plain).append(text)
    fields = {name: _header(message[name]) for name in ("from", "to", "cc")}
    fields["date"] = _date(_header(message["date"]))
    yield from _document(path, _header(message["subject"]), plain, rich, fields, place, note)


def _unread(path: Path, attached: list[str]) -> Iterator[CollectionError]:
    if attached:
        names = ", ".join(attached[:_MOST_NAMED])
        more = f" and {len(attached) - _MOST_NAMED:,} more" if len(attached) > _MOST_NAMED else ""
        yield CollectionError(path, f"attachments are not read: {names}{more}")


def _document(
    path: Path, subject: str, plain: list[str], rich: list[str], fields: Mapping[str, str],
    place: Mapping[str, int], note: Note,
) -> Iterator[Part]:  # fmt: skip
    """The document of an e-mail: its plain text, or else its page, below who wrote to whom."""
    text = "\n\n".join(each.strip() for each in plain if each.strip())
    if not text:
        page = path.with_name("page.html")
        inner = (web_parts(page, each.encode(errors="replace"), note) for each in rich)
        text = "\n\n".join(part.text for each in inner for part in each)
    heads = (f"{name.title()}: {fields[name]}" for name in ("from", "to", "date") if fields[name])
    text = "\n".join([*heads, "", text.replace("\r\n", "\n").replace("\r", "\n")]).strip()
    if text:
        sender = _NAME_AND_ADDRESS.match(fields["from"])
        author = (sender[1].strip() or sender[2]) if sender else fields["from"]
        found = {**fields, "author": author.strip(), **place}
        name = f"#message={place['message']}" if place else ""
        yield Part(text, subject or path.stem, place=name, metadata=found)


def _header(value: object) -> str:
    """A header as a text in one line."""
    pieces = list[str]()
    for piece, codec in decode_header(f"{value or ''}"[:_LONGEST_HEADER]):
        pieces.append(_text(piece, codec) if isinstance(piece, bytes) else piece)
    return " ".join("".join(pieces).split())


def _text(content: bytes, codec: str | None) -> str:
    """A text in the encoding that it is said to be in, or else in one that is recognised."""
    try:
        return content.decode(codec or "utf-8").replace("\0", "")
    except (LookupError, ValueError):
        pass
    try:
        return decoded(content)[0]
    except LineError:
        return content.decode("latin-1").replace("\0", "")


def _date(said: str) -> str:
    """A date of an e-mail in ISO 8601, in UTC; as it is if it is none."""
    try:
        moment = parsedate_to_datetime(said)
        return moment.astimezone(UTC).isoformat() if moment.tzinfo else moment.isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return said


def outlook_parts(path: Path, content: bytes, note: Note) -> Iterator[Part | CollectionError]:
    """The document of an e-mail that Outlook has saved."""
    file = CompoundFile(content)

    def text(number: str, folder: str = "") -> str:
        for kind, codec in (("001F", "utf-16-le"), ("001E", None)):
            if (found := file.get(f"{folder}__substg1.0_{number}{kind}")) is not None:
                return _text(found, codec).replace("\0", "").strip()
        return ""

    def recipients(kind: int) -> str:
        """Those of one kind; without them, their names alone."""
        found = []
        for folder in (f"{each}/" for each in folders if each.startswith("__recip")):
            entries = _properties(file.get(f"{folder}{_PROPERTIES}") or b"", _HEAD_OF_RECIPIENT)
            if int.from_bytes(entries.get(_RECIPIENTS_KIND, b"\1")[:4], "little") == kind:
                found.append(
                    _person(text("3001", folder), text("39FE", folder) or text("3003", folder))
                )
        return ", ".join(found)

    folders = sorted({name.split("/")[0] for name in file})
    rich = file.get("__substg1.0_10130102") or b""
    fields = {
        "from": _person(text("0C1A"), text("5D01") or text("0C1F")),
        "to": recipients(1) or text("0E04"), "cc": recipients(2) or text("0E03"),
        "date": _outlooks_date(_properties(file.get(_PROPERTIES) or b"", _HEAD_OF_PROPERTIES)),
    }  # fmt: skip
    page = [rich.decode(errors="replace")] if rich else []
    yield from _document(path, text("0037"), [text("1000")], page, fields, {}, note)
    attached = (f"{each}/" for each in folders if each.startswith("__attach"))
    names = (text("3707", folder) or text("3704", folder) for folder in attached)
    yield from _unread(path, [each or "without a name" for each in names])


def _person(name: str, address: str) -> str:
    """Somebody as a header names them; Outlook has addresses that are none elsewhere, too."""
    has_both = "@" in address and name not in {"", address}
    return f"{name} <{address}>" if has_both else name or address


def _properties(content: bytes, head: int) -> dict[bytes, bytes]:
    """The values of properties by their tags, from entries of 16 bytes after a head."""
    starts = range(head, len(content), 16)
    return {content[at : at + 4]: content[at + 8 : at + 16] for at in starts}


def _outlooks_date(entries: Mapping[bytes, bytes]) -> str:
    """When it was sent, or delivered."""
    for tag in (b"\x40\0\x39\0", b"\x40\0\x06\x0e"):
        if ticks := int.from_bytes(entries.get(tag, b""), "little"):
            with suppress(OverflowError):
                moment = _OUTLOOKS_FIRST_DAY + timedelta(seconds=ticks // 10**7)
                return moment.isoformat()
    return ""
