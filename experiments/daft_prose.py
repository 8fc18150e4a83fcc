"""The words of docs/results/daft.md, around the tables that the runs fill."""

HEAD = """\
# DAFT

Made by `python experiments/daft.py --data DATA all`, or an experiment by its name, where DATA holds
the collections in BEIR's layout. {machine}

Everything is in miniature. The document tower is all-MiniLM-L6-v2 (6 layers, 384 wide) and reads
48 tokens; the query tower has its layers 0 and 5 in a permuted and sign-flipped basis: as good a
model as before, but a stranger to the document tower, as two independently pre-trained models are
to each other. Both end in the first token's output and a projection to 128 dimensions that begins
at random. Training: squad-dev train, medquad and boolq dev in one corpus, 840 batches of 32 pairs
an epoch; 400 other queries validate, among 1,500 passages. Arithmetic is bf16.
The settings are in `experiments/daft.toml`; what a run changes of them is in `experiments/daft.py`.
An alignment has at most 308 steps, the stage in which both towers train 154.

What they showed, in a few sentences by hand; the tables follow.

- **The collapse is real, and alignment delays it or cures it, depending on what else there is.**
  With constants from the cache as the only negatives, towers that were not aligned are one vector
  within 50 steps at 1e-4, and are stopped by name. Aligned first, they collapse at that rate too,
  100 steps later: nothing pushes documents apart, and the document tower wears down. At 3e-5 the
  aligned pair improves instead (0.663 to 0.748), and the other one is all but collapsed after as
  many steps.
- **In-batch negatives beside the cache make fine-tuning raise what alignment reached**, on the
  validation queries and on all three test collections, and more than as many steps of alignment
  alone. Not aligned, the same setting ends near the loss of a collapse and finds next to nothing.
- **Negatives that carry gradient prevent the collapse without any alignment.** In the setting
  that collapses, in-batch, uniform and BM25 negatives that are encoded with gradient do not, and
  with the first, 60 steps give nearly what 150 of alignment give. Constants alone wear down
  everything: two layers in the document tower's own basis (0.379 to 0.000), towers with mean
  pooling, even two equal towers (0.840 to 0.067). At 1e-5 the run had neither collapsed nor
  learnt in 60 steps.
- **The KL estimate says little by itself.** Over the map it does not predict what is left after
  training; neither do nDCG@10 before training or any collapse figure: what decides is which
  negatives carry gradient. The paper's δ per dimension is met where retrieval has become useful
  with CLS and a random projection; with mean pooling towers that retrieve at random begin below
  it, and so does the mean of token embeddings after 100 steps. Patience never ended an alignment
  that went well. Hence the defaults: no δ, patience, and nDCG to watch.
- **Nothing should be projected away.** Mean pooling and a projection that begins as a rotation
  give more than CLS and a random one to 128 dimensions, before and after fine-tuning: that is
  what `recipes/own-corpus.toml` does. A projection frozen during the alignment costs much.
- **Three thousand steps do not make up for what the query tower has to learn.** Even `long` stays
  below what the untrained document tower finds by itself. So of the target that a trained pair
  beats both towers' start, the query tower's half is met and the document tower's is missed. The
  paper trains some fifty times as many pairs.
- **Table 3 in part.** Without pre-training or without self-attention the query tower ends near
  chance on the tests, though not in a collapse. Without the shared projection nothing was lost:
  here both towers have one width, and the document tower was trained for retrieval.
- **Layers:** quality grows up to four, at twice the latency of two; six are no better than four.

"Before" is at the start of that stage, or of the alignment where that collapsed already. A run has
collapsed when `swiftlet train` ended it with the error that says so. There is one seed a run: small
differences between runs may be chance, whatever the significance over queries.
"""

COLLAPSE = """\
## Collapse and cure (001, Figures 1 to 5, Table 1)

`default` draws 64 negatives a query from the cache, which only the query encoder learns from, and
lets the batch's other positives carry gradient to both towers. `cached` has the cache's constants
alone: there is nothing that pushes documents apart. `cached-fast` has them at a higher rate (1e-4,
constant). Each with alignment and without (`unaligned`). `document-frozen` aligns the query encoder
alone for 450 steps, more than `default` trains in both stages. `long` aligns for three epochs and
trains both towers for three quarters of one. What `start, document encoder for both` finds is the
untrained document tower by itself.

{figures}

![Training loss]({folder}/loss.png)

![KL estimate during the alignment]({folder}/divergence.png)

Embeddings of 400 queries and 400 documents of squad-dev test; without alignment at the last
checkpoint before the run was stopped:

![Principal components]({folder}/embeddings.png)

The same by t-SNE, which shows who is whose neighbour and not how far apart they are:

![t-SNE]({folder}/neighbourhoods.png)

Where each criterion would have ended the alignment of `document-frozen`, evaluated every 50 steps:

{stops}

On the test collections, of which no query was trained on:

{tests}
"""

ABLATION = """\
## What the query encoder needs (001, Table 3)

`no-self-attention` is the mean of token embeddings that know nothing of each other.

{figures}

{tests}
"""

LAYERS = """\
## Layers of the query encoder (001, Table 2 and Figure 6)

Which layers were kept stands behind their number. Milliseconds are for one query of 10 tokens in
ONNX int8 on one thread, tokenising included, medians of 1,500 in alternating rounds, on cores
that had other work too.

{figures}

{tests}

![Quality against latency]({folder}/latency.png)
"""

PROJECTION = """\
## The projection

`projection-frozen` leaves W, b as they began during the alignment. `pretrained-space` begins with a
square orthogonal matrix, which keeps all angles, has mean pooling, and aligns for all 308 steps,
since such towers are below δ from the start: what the document encoder knew is kept, and `start,
document encoder for both` is all-MiniLM-L6-v2 as it comes, reading 48 tokens.

{figures}

{tests}
"""

NEGATIVES = """\
## Which negatives carry gradient

`default` mixes constants from the cache with in-batch negatives. `cached` has the constants alone,
`negatives-in-batch` the batch's alone, and `negatives-re-encoded` draws two a query from the cache,
encodes these 64 with gradient and shows them to the whole batch. Seconds are for a step of 32 pairs
on one core, which it often had to share.

{figures}

{seconds}
"""

MAP = """\
## When alignment matters

Around `cached-fast-unaligned`, one thing changed at a time, over 60 steps; `map-aligned-N` is the
same after N steps of alignment, and `cached-fast` after as many as its KL estimate asked for.
`map-same-towers` has two equal towers, the paper's homogeneous case. `map-uniform`, `map-bm25` and
`map-mined` draw as many negatives for each query as the cache does and encode them with gradient.

{figures}

How well what is known before both towers train predicts what is left of nDCG@10 afterwards, over
these runs:

{correlations}
"""
