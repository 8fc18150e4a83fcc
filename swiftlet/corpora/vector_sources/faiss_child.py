"""A program that reads an index of FAISS for `faiss_file`: a damaged one may end its process.

`faiss_child.py PATH` writes a line of JSON, the labels of the rows as int64 if they are not their
numbers, and one byte if the type gives its vectors back. `faiss_child.py PATH FIRST` writes the
vectors from a row on as float32.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import faiss
import numpy as np

_NUMBERS_AT_ONCE, _ALLOWED_BYTES = 1 << 22, 1 << 26
_METRICS = {faiss.METRIC_INNER_PRODUCT: "inner_product", faiss.METRIC_L2: "l2"}
_NAMES = {
    number: name.removeprefix("METRIC_")
    for name, number in vars(faiss).items()
    if name.startswith("METRIC_")
}


def read(path: Path) -> Any:
    """The index in a file, mapped as far as its type allows."""
    size = path.stat().st_size
    # A damaged file may contain any length; no real one exceeds the size of the file. Some
    # transforms without a matrix name the size of one.
    faiss.set_deserialization_vector_byte_limit(max(size, _ALLOWED_BYTES))
    faiss.set_deserialization_loop_limit(size)
    index = faiss.read_index(
        str(path), faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE
    )
    lists = faiss.try_extract_index_ivf(index)
    lists = lists and faiss.downcast_index(lists)
    if isinstance(lists, faiss.IndexIVFPQFastScan) and lists.fine_quantizer is None:
        lists.fine_quantizer = lists.pq  # FAISS 1.15 forgets it, and ends where it is needed
    check_parts(index)
    return index


def check_parts(index: Any) -> None:
    """Refuse an index whose parts differ in width or rows: FAISS writes as the outermost says.

    :raises RuntimeError: When they differ.
    """
    rows, width = index.ntotal, index.d
    if isinstance(index, faiss.IndexPreTransform):
        transforms = [index.chain.at(place) for place in range(index.chain.size())]
        widths = [width, *(end for each in transforms for end in (each.d_in, each.d_out))]
        _check_width(widths[0::2], [*widths[1::2], index.index.d][: len(widths[0::2])])
        width = index.index.d
    for name in ("pq", "sq", "rq", "aq"):
        if (codes := getattr(index, name, None)) is not None:
            _check_width([codes.d], [width])
    for name in ("index", "base_index", "refine_index", "storage"):
        if (part := getattr(index, name, None)) is not None:
            part = faiss.downcast_index(part)
            _check_width([part.d], [width])
            _check_rows(rows, part.ntotal)
            check_parts(part)
    if isinstance(index, faiss.IndexFlatCodes) and index.code_size:
        _check_rows(rows, index.codes.size() // index.code_size)
    if isinstance(index, faiss.IndexFastScan):  # its codes are in blocks
        _check_rows(rows, min(rows, index.ntotal2))
    if isinstance(index, faiss.IndexIVF):
        if not isinstance(index, faiss.IndexIVFFlatDedup):
            _check_rows(rows, index.invlists.compute_ntotal())
        check_parts(part := faiss.downcast_index(index.quantizer))
        _check_width([part.d], [width])
        if part.ntotal > index.nlist:
            raise RuntimeError(f"it has {index.nlist:,} lists for {part.ntotal:,} centroids")


def _check_rows(expected: int, found: int) -> None:
    if found != expected:
        raise RuntimeError(f"it has {expected:,} vectors, and a part of it {found:,}")


def _check_width(found: list[int], expected: list[int]) -> None:
    if found != expected:
        raise RuntimeError(f"a part of it has the width {found}, another {expected}")


def labels(index: Any) -> Any:
    """The ids (n,) of the rows of an index; None where they are their numbers."""
    count = index.ntotal
    if isinstance(index, faiss.IndexIDMap):
        ids = faiss.vector_to_array(index.id_map)
    elif (lists := faiss.try_extract_index_ivf(index)) is not None:
        found = lists.invlists
        sizes = [(number, found.list_size(number)) for number in range(found.nlist)]
        parts = [
            faiss.rev_swig_ptr(found.get_ids(number), size).copy() for number, size in sizes if size
        ]
        ids = np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        if len(ids) == count and (ids == np.arange(count)).all():
            return None
    else:
        return None
    if len(ids) != count:
        raise RuntimeError(f"it has {len(ids):,} ids for {count:,} vectors")
    return ids.astype(np.int64)


def vectors(index: Any, ids: Any, first: int, count: int) -> Any:
    """The vectors of some rows, as precisely as the index keeps them."""
    if isinstance(index, faiss.IndexIDMap):
        index, ids = faiss.downcast_index(index.index), None
    if ids is None:
        return index.reconstruct_n(first, count)
    return index.reconstruct_batch(ids[first : first + count])


def _describe(index: Any) -> dict[str, Any]:
    inner = index
    while isinstance(inner, faiss.IndexIDMap | faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    if isinstance(inner, faiss.IndexLSH):
        raise RuntimeError(f"it is an {type(inner).__name__}, which keeps bits in place of vectors")  # noqa: TRY004
    if index.metric_type not in _METRICS:
        name = _NAMES.get(index.metric_type, index.metric_type)
        raise RuntimeError(f"its metric is {name}, where L2 or INNER_PRODUCT is expected")
    metric = _METRICS[index.metric_type]
    return {
        "dim": index.d,
        "metric": metric,
        "num_rows": index.ntotal,
        "type": type(inner).__name__,
    }


def _main(path: Path, first: int | None) -> None:
    out = sys.stdout.buffer
    try:
        index = read(path)
        ids = labels(index)
        head = _describe(index) | {"labels": ids is not None}
    except RuntimeError as error:
        if re.search("read error|deserialization|could not mmap", f"{error}"):
            error = RuntimeError("the file ends too early or is damaged: copy it again")
        reason = re.sub(r"^Error in .*? at \S+:\d+: (Error: '.*?' failed: )?", "", f"{error}")
        out.write(json.dumps({"refused": " ".join(reason.split())[:200]}).encode())
        return
    if first is None:
        out.write(json.dumps(head).encode() + b"\n")
        if ids is not None:
            out.write(ids.tobytes())
        out.flush()
    if ids is not None and not isinstance(index, faiss.IndexIDMap):
        lists = faiss.extract_index_ivf(index)
        lists.set_direct_map_type(faiss.DirectMap.Hashtable)
    if first is None:
        if index.ntotal:
            vectors(index, ids, 0, 1)
        out.write(b"1")
        return
    step = max(1, _NUMBERS_AT_ONCE // index.d)
    for start in range(first, index.ntotal, step):
        some = vectors(index, ids, start, min(step, index.ntotal - start))
        out.write(np.ascontiguousarray(some, "<f4").tobytes())


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else None)
