"""The rules of Git by which files are left out.

Each star of a rule takes the nearest place where what follows it fits, and is not tried again, so
that a name is compared in linear time. Names are compared as bytes, as Git does.
"""

import re
import stat
from pathlib import Path
from typing import NamedTuple

_TOKEN = re.compile(
    rb"(?P<stars>\*+)|(?P<any>\?)|\[(?P<no>[!^]?)(?P<set>\]?+(?:\\.|\[:[^]:[]*:\]|[^]\\])*+)\]"
    rb"|\\(?P<escaped>.)|(?P<plain>[^[\\])",
    re.DOTALL,
)
_MEMBER = re.compile(
    rb"\[:(?P<kind>[^]:[]*):\]|(?P<low>\\?+.)-(?P<high>\\?+.)|(?P<one>\\?+.)", re.DOTALL
)
_KINDS = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_LONGEST = 4_096  # bytes, as of a path


class Rule(NamedTuple):
    """What a line says of a path below its folder: whether it is `ignored`, if it fits."""

    ignored: bool
    of_folders: bool
    of_names: bool
    pattern: re.Pattern[bytes]


def rules_of(path: Path) -> list[Rule]:
    """The rules in a file, or none if it is no regular file; a line that is no rule is left out."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):  # reading a pipe may never end
            return []
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError:
        return []
    return [rule for line in lines if (rule := _rule(line.removesuffix(b"\r"))) is not None]


def verdict(rules: list[Rule], path: bytes, *, is_folder: bool) -> bool | None:
    """Whether the last rule that names a path ignores it; None if no rule does."""
    name = path.rpartition(b"/")[2]
    for rule in reversed(rules):
        if rule.of_folders and not is_folder:
            continue
        if rule.pattern.match(name if rule.of_names else path):
            return rule.ignored
    return None


def _rule(line: bytes) -> Rule | None:
    if line.startswith(b"#") or len(line) > _LONGEST:
        return None
    bare = line.rstrip(b" ")
    if (len(bare) - len(bare.rstrip(b"\\"))) % 2:  # the first space is escaped
        bare = line[: len(bare) + 1]
    text = bare.removeprefix(b"!")
    pattern = text.removesuffix(b"/")
    of_names = b"/" not in pattern
    compared = _expression(pattern.removeprefix(b"/"))
    if compared is None:
        return None
    return Rule(text == bare, pattern != text, of_names, re.compile(compared, re.DOTALL))


def _expression(pattern: bytes) -> bytes | None:
    """The regular expression of a pattern; None if it fits nothing.

    A group without a second try begins at each star and ends before the next one; those of stars
    within a name are in those of stars that take folders.
    """
    found, at, of_name, of_folders = b"", 0, b"", b""
    while token := _TOKEN.match(pattern, at):
        before, at = pattern[at - 1 : at], token.end()
        after = pattern[at : at + 1]
        if len(token["stars"] or b"") > 1 and before in b"/" and after in (b"", b"/"):
            found += of_name + (of_folders + rb"(?>(?:.*?/)??" if after else b".*")
            of_name, of_folders = b"", b")" if after else of_folders
            at += len(after)
        elif token["stars"]:
            found += of_name + rb"(?>[^/]*?"
            of_name = b")"
        elif token["set"] is not None:
            if (members := _members(token["set"])) is None:
                return None
            found += rb"[^/%b]" % members if token["no"] else rb"(?!/)[%b]" % members
        else:
            found += rb"[^/]" if token["any"] else re.escape(token["escaped"] or token["plain"])
    # What is left begins with an open bracket, or is a last backslash.
    return found + rb"\Z" + of_name + of_folders if at == len(pattern) else None


def _members(text: bytes) -> bytes | None:
    """What stands between brackets, in regular expressions; None if it names an unknown kind."""
    found = b""
    for each in _MEMBER.finditer(text):
        if (kind := each["kind"]) is not None:
            if kind not in _KINDS:
                return None
            found += _KINDS[kind]
            continue
        low, high = ((each[name] or each["one"])[-1:] for name in ("low", "high"))
        found += re.escape(low)
        if low < high:  # a range in reverse has its beginning alone
            found += b"-" + re.escape(high)
    return found
