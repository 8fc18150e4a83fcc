"""A program that reads PDFs for pdf.py, since PDFium itself bounds neither its memory nor its time.

    python -I pdf_reader.py BYTES SECONDS FOLDER ...

It may take so many bytes of memory, and so many seconds of processor time a page; the folders have
packages. PDFs come as its input, each after its length in 8 bytes. It answers each with lines of
JSON: the title and the author, then the text of each page and whether it has pictures alone, or at
last an error as an object; and null.
"""

import json
import resource
import sys
import time
from collections.abc import Iterator
from ctypes import create_string_buffer
from typing import Any


def main() -> None:
    """Answer until the input ends."""
    size, seconds = map(int, sys.argv[1:3])
    sys.path[:] = sys.argv[3:]
    _bound(resource.RLIMIT_AS, size)
    _bound(resource.RLIMIT_CORE, 0)
    while length := sys.stdin.buffer.read(8):
        content = sys.stdin.buffer.read(int.from_bytes(length, "big"))
        for answer in _answers(content, seconds):
            sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def _bound(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _answers(content: bytes, seconds: int) -> Iterator[Any]:
    import pypdfium2
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE

    def bound_time() -> None:
        _bound(resource.RLIMIT_CPU, int(time.process_time()) + 1 + seconds)

    bound_time()
    try:
        with pypdfium2.PdfDocument(content) as document:
            yield [_said(document, b"Title"), _said(document, b"Author")]
            for page in document:
                bound_time()
                text = page.get_textpage().get_text_range()
                has_words = any(map(str.isalnum, text))
                yield text, not has_words and any(page.get_objects(filter=[FPDF_PAGEOBJ_IMAGE]))
    except pypdfium2.PdfiumError as error:
        yield {"error": f"{error}"}
    yield None


def _said(document: Any, name: bytes) -> str:
    """An entry about the document as it is; the package refuses half of a surrogate pair."""
    from pypdfium2.raw import FPDF_GetMetaText

    size = FPDF_GetMetaText(document, name, None, 0)
    content = create_string_buffer(size)
    FPDF_GetMetaText(document, name, content, size)
    return content.raw[: size // 2 * 2].decode("utf-16-le", "replace")


if __name__ == "__main__":
    main()
