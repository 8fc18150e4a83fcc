"""The words of docs/results/distillation.md, around the tables that the runs fill."""

HEAD = """\
# Distillation

Made by `python experiments/distillation.py --data DATA all`, where DATA holds the collections in
BEIR's layout. {machine}

The teacher is all-MiniLM-L6-v2 in fp32, which embedded the documents (passages of 128 tokens,
exact index). A student embeds the queries alone. Kept shares are the nDCG@10 of the student over
that of the teacher, for the same queries and the same index.
"""

SHIPPED = """\
## What ships

Trained on everything, then on the queries alone: those that people typed (web-queries), those of
squad-dev train, medquad, boolq dev and qmsum train, and sentences of wiki-passages-2wiki, medquad,
boolq, squad-dev and WordNet's glosses. Nothing of scifact and covid-qa was learnt from, and no
query of the other tests; the documents of squad-dev and boolq are in the prose.

Milliseconds are for one query of 10 tokens in int8 on one thread, tokenising included. `int8` is
quantised dynamically and what ships; `int8_static` has fixed ranges, calibrated on web-queries. The
cores had other work meanwhile; [query encoding](query-encoding.md) has other lengths, and the
teacher in torch.

Three layers miss what was wanted of them: the queries that follow the long run bring them closer to
the teacher, but their shares no higher.

{shares}

![Kept share against latency]({picture})
"""

INT8 = """\
## int8 against fp32

1,000 queries that were held out of the distillation: the cosine of their embeddings in int8 with
those in fp32, the share of the ten best of boolq's documents that both find, the largest change of
nDCG@10 over the tests above, and for how many queries the embedding had other bytes when four
threads encoded at once than when it was alone.

{changes}
"""

LAYERS = """\
## Which layers to keep (004, section 4.1)

The mean cosine with the teacher on 1,500 web queries for every choice of one, two and three layers:
as they are, and after the best linear map of their output. Some choices were then trained briefly:
cosine on what was held out, and kept share on the development queries (squad-dev train, boolq dev
and qmsum val, of which the first two had no part in the training).

{layers}

![Kept share by layers]({picture})
"""

PATH = """\
## What else helps

Two layers, one thing changed at a time in short runs, judged by the development queries; at the end
the long runs. `cosine` is that of 2,000 held-out queries, which tells runs apart more
finely than the nDCG of a thousand.

{path}
"""
