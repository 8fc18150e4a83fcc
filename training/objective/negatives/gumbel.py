"""Sampling without replacement from softmax distributions over millions of items."""

import numpy as np
import torch
from numpy.typing import NDArray

Keys = NDArray[np.float64]
Numbers = NDArray[np.int64]

NUM_BLOCKS = 2048
"""The number of best blocks in a line. Noise is drawn for each column of these blocks."""

_BLOCK = 16
_BLOCKS_PER_DRAWN = 16


def gumbel_top_k(
    scores: torch.Tensor,
    count: int,
    random: np.random.Generator,
    num_blocks: int = NUM_BLOCKS,
) -> Numbers:
    """The columns with the largest score + Gumbel noise, for each line of `scores` (n, m).

    The first column of a line is drawn from the softmax of its scores, and each further column
    from the softmax over the remaining ones (Gumbel-max trick, Plackett-Luce model).

    To draw noise for millions of scores would take longer than to compute them. Therefore noise is
    drawn for each column of the best blocks only. Of the other columns, only those that exceed the
    last of the chosen ones are sampled (after Mussmann et al., "Fast amortized inference and
    learning in log-linear models with randomly perturbed approximate nearest neighbor search",
    2017). The distribution is exactly the same. Each score is read once, for the maximum of its
    block; the rest of the time does not depend on m.

    :param scores: Finite or -inf, which is never drawn. Overwritten.
    :returns: (n, count), the largest first, -1 if a line has too few finite scores.
    """
    chosen, bounds = _best_columns(scores, max(num_blocks, _BLOCKS_PER_DRAWN * count))
    heads = scores.gather(1, chosen).cpu().double().numpy()
    keys = heads - np.log(random.standard_exponential(heads.shape))
    num_heads = keys.shape[1]
    if count <= num_heads:
        thresholds = np.partition(keys, num_heads - count, axis=1)[:, num_heads - count]
    else:
        thresholds = np.full(len(keys), -np.inf)
    lines, places = np.nonzero((keys >= thresholds[:, np.newaxis]) & (keys > -np.inf))
    columns, keys = chosen.cpu().numpy()[lines, places], keys[lines, places]
    if num_heads < scores.shape[1]:
        scores.scatter_(1, chosen, -torch.inf)
        more = _overtaking(scores, bounds, thresholds, random)
        lines, columns, keys = (
            np.concatenate(parts) for parts in zip((lines, columns, keys), more, strict=True)
        )
    return _largest(lines, columns, keys, scores.shape[0], count)


def _best_columns(scores: torch.Tensor, num_blocks: int) -> tuple[torch.Tensor, Keys]:
    """The columns (n, h) of the best blocks of each line, and a bound on all other scores, (n,)."""
    num_lines, size = scores.shape
    whole = size // _BLOCK
    columns = torch.arange(size, device=scores.device)
    if whole <= num_blocks:
        return columns.expand(num_lines, -1), np.full(num_lines, -np.inf)
    # The columns of a block are `whole` apart, so that maxima of adjacent blocks are vectorised.
    maxima = scores[:, : whole * _BLOCK].reshape(num_lines, _BLOCK, whole).amax(1)
    # One block more than needed: its maximum is the bound on the other blocks.
    best = maxima.topk(num_blocks + 1, dim=1)
    blocks = columns[: whole * _BLOCK].view(_BLOCK, whole).T[best.indices[:, :-1]]
    rest = columns[whole * _BLOCK :].expand(num_lines, -1)
    bounds: Keys = best.values[:, -1].cpu().double().numpy()
    return torch.cat((blocks.flatten(1), rest), dim=1), bounds


def _overtaking(
    scores: torch.Tensor, bounds: Keys, thresholds: Keys, random: np.random.Generator
) -> tuple[Numbers, Numbers, Keys]:
    """Lines, columns and keys of the scores (n, m) that exceed `thresholds` (n,) with their noise.

    No score of line i exceeds `bounds`[i]. Score + Gumbel noise is -log of the first arrival of a
    Poisson process with the rate exp(score). The arrivals of all columns before exp(-threshold) are
    simulated with the bound as score, and thinned to the true rates.
    """
    size = scores.shape[1]
    with np.errstate(invalid="ignore"):
        # NaN if only -inf is left, or if training has diverged.
        rates = np.nan_to_num(size * np.exp(bounds - thresholds))
    arrivals = random.poisson(rates)
    lines = np.repeat(np.arange(len(arrivals)), arrivals)
    columns = random.integers(size, size=len(lines))
    device = scores.device
    chosen = scores[torch.from_numpy(lines).to(device), torch.from_numpy(columns).to(device)]
    excesses = chosen.cpu().double().numpy() - bounds[lines]
    accepted = -random.standard_exponential(len(lines)) < excesses
    lines, columns = lines[accepted], columns[accepted]
    keys = thresholds[lines] + random.standard_exponential(len(lines))
    # The first arrival of a column has the largest key.
    order = np.argsort(-keys)
    _, firsts = np.unique(lines[order] * size + columns[order], return_index=True)
    kept = order[firsts]
    return lines[kept], columns[kept], keys[kept]


def _largest(lines: Numbers, columns: Numbers, keys: Keys, num_lines: int, count: int) -> Numbers:
    """The `count` columns with the largest keys of each line, (num_lines, count)."""
    order = np.lexsort((-keys, lines))
    lines, columns = lines[order], columns[order]
    ranks = np.arange(len(lines)) - np.searchsorted(lines, lines)
    kept = ranks < count
    drawn = np.full((num_lines, count), -1, dtype=np.int64)
    drawn[lines[kept], ranks[kept]] = columns[kept]
    return drawn
