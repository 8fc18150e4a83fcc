"""The commands. Each imports its own stage alone, so that `search` never waits for torch."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import models
from swiftlet.terminal import StageBars, messages, output, print_hits, print_refusal

REFUSED = 2
"""Exit status of a command that was refused or interrupted."""


class _Front(TyperGroup):
    """Turns every refusal into one sentence and status 2; no traceback reaches a user."""

    def invoke(self, ctx: Any) -> Any:
        from retrieval.errors import RetrievalError

        try:
            return super().invoke(ctx)
        except RetrievalError as error:
            print_refusal(str(error))
        except typer.BadParameter as error:
            print_refusal(error.format_message())
        except KeyboardInterrupt as interrupt:
            print_refusal(str(interrupt) or "interrupted")
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            place = f"{error.filename}: " if error.filename else ""
            print_refusal(f"{place}{error.strerror or error}")
        raise typer.Exit(REFUSED)


app = typer.Typer(
    cls=_Front,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Dense retrieval that answers on a CPU in about a millisecond.",
)


class PrecisionOption(StrEnum):
    """The precisions an encoder directory may hold."""

    fp32 = "fp32"
    int8 = "int8"
    int8_static = "int8_static"


class PoolingOption(StrEnum):
    """How token embeddings become one, for checkpoints that do not say."""

    mean = "mean"
    cls = "cls"


class DistanceOption(StrEnum):
    """What a distillation minimises."""

    euclidean = "euclidean"
    cosine = "cosine"


class TrainingPrecisionOption(StrEnum):
    """What training computes in."""

    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


Encoder = Annotated[
    Path,
    typer.Option(
        help="Directory that `swiftlet export` wrote.", show_default="the one that ships for it"
    ),
]
Precision = Annotated[
    PrecisionOption | None,
    typer.Option(help="Which model of the encoder to use.", show_default="what its export chose"),
]
IndexDirectory = Annotated[Path, typer.Argument(help="Index directory.", metavar="INDEX")]
TopK = Annotated[int, typer.Option("--top-k", "-k", min=1, help="Documents to return.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")]
OverwriteRun = Annotated[bool, typer.Option("--overwrite", help="Remove an earlier run first.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an artefact already there.")]


@app.command()
def demo(
    directory: Annotated[
        Path | None,
        typer.Option(help="Where its index is kept.", show_default="the user's cache folder"),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8080,
) -> None:
    """Index the Python standard library's documentation and serve it."""
    from swiftlet.demo import run_demo

    run_demo(directory, host=host, port=port)


@app.command()
def index(
    corpus: Annotated[
        Path,
        typer.Argument(
            help="A BEIR folder, a JSONL or TSV file, a folder of text or Markdown, or irds:NAME."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Index directory to write.")],
    encoder: Encoder = models.DEFAULT_ENCODER,
    passage_tokens: Annotated[
        int, typer.Option(help="Longest passage, in tokens, title included.")
    ] = 128,
    overlap_tokens: Annotated[
        int, typer.Option(help="Tokens that neighbouring passages share.")
    ] = 16,
    truncate: Annotated[
        bool,
        typer.Option("--truncate", help="One passage a document: what the encoder reads."),
    ] = False,
    factory: Annotated[
        str | None, typer.Option(help="FAISS factory string.", show_default="chosen by size")
    ] = None,
    precision: Precision = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Encoding threads.", show_default="all cores")
    ] = None,
    overwrite: Overwrite = False,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Count and list bad lines instead of stopping.")
    ] = False,
) -> None:
    """Build an index from a corpus. Run again after an interruption, it goes on where it was."""
    from indexing.build import BuildSettings, build_index
    from retrieval.collections import SkippedLines, read_documents

    skipped = SkippedLines() if skip_bad_lines else None
    settings = BuildSettings(
        passage_tokens=passage_tokens,
        overlap_tokens=overlap_tokens,
        truncate=truncate,
        factory=factory,
        precision=_value(precision),
        threads=threads,
    )
    try:
        with StageBars() as progress:
            manifest = build_index(
                read_documents(corpus, skipped=skipped),
                encoder,
                out,
                settings,
                overwrite=overwrite,
                progress=progress,
            )
    finally:
        if skipped is not None:
            _list_skipped(skipped)
    details = manifest.details
    output.print(
        f"[bold]{out}[/]: {details['num_documents']:,} documents, "
        f"{details['num_passages']:,} passages, {details['factory']}, recall@10 "
        f"{details['recall']['recall@10']:.3f} against exact search",
        soft_wrap=True,
    )


@app.command()
def search(
    index: IndexDirectory,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    top_k: TopK = 10,
    encoder: Encoder = models.DEFAULT_QUERY_ENCODER,
    precision: Precision = None,
) -> None:
    """Search an index from the terminal."""
    from dataclasses import asdict

    from retrieval.searcher import Searcher, check_query

    check_query(query)
    searcher = Searcher.open(index, encoder, precision=_value(precision))
    result = searcher.search(query, top_k)
    print_hits(result.hits)
    stages = asdict(result.stage_seconds)
    output.print(
        f"{sum(stages.values()) * 1000:.2f} ms: "
        + ", ".join(f"{name} {seconds * 1000:.2f}" for name, seconds in stages.items()),
        style="dim",
    )
    searcher.close()


@app.command()
def serve(
    index: Annotated[
        Path | None, typer.Argument(help="Index directory.", show_default="SWIFTLET_INDEX")
    ] = None,
    encoder: Annotated[
        Path | None,
        typer.Option(
            help="Directory that `swiftlet export` wrote.",
            show_default="SWIFTLET_ENCODER or shipped",
        ),
    ] = None,
    precision: Precision = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 takes a free one.", show_default="8000")
    ] = None,
) -> None:
    """Serve an index over HTTP. Every SWIFTLET_* variable is in docs/settings.md."""
    from service.server import serve as run
    from service.settings import load_settings

    settings = load_settings(
        default_encoder=models.DEFAULT_QUERY_ENCODER,
        index=index,
        encoder=encoder,
        precision=_value(precision),
        host=host,
        port=port,
    )
    run(settings)


@app.command()
def evaluate(
    target: Annotated[
        str, typer.Argument(help="Index directory, or the URL of a running service.")
    ],
    queries: Annotated[
        Path, typer.Option(help="A BEIR folder, a JSONL or TSV file, or irds:NAME.")
    ],
    qrels: Annotated[Path, typer.Option(help="BEIR or TREC qrels, or irds:NAME.")],
    encoder: Annotated[
        Path | None, typer.Option(help="For an index: the query encoder.", show_default="shipped")
    ] = None,
    precision: Precision = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="May be repeated.", show_default="nDCG@10, MRR@10, recall@100"),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            "--top-k", "-k", min=1, help="Documents a query.", show_default="what the metrics need"
        ),
    ] = None,
    run_out: Annotated[Path | None, typer.Option(help="TREC run file to write.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="TREC run to test the differences against.")
    ] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept qrels that name ids unknown here.")
    ] = False,
) -> None:
    """Measure an index or a service by queries and qrels."""
    from swiftlet.evaluate import evaluate_target

    report = evaluate_target(
        target,
        queries=queries,
        qrels=qrels,
        encoder=encoder,
        precision=_value(precision),
        metrics=metric or [],
        top_k=top_k,
        run_out=run_out,
        against=against,
        allow_unknown=allow_unknown,
    )
    output.print(report.table())


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe in TOML: see docs/training.md.")],
    out: Annotated[
        Path | None, typer.Option(help="Directory that the run is kept in.", show_default="none")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated."),
    ] = None,
    resume: Resume = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate; print sizes, memory and steps.")
    ] = False,
    overwrite: OverwriteRun = False,
) -> None:
    """Train a pair of encoders: DAFT, contrastive or alternating."""
    from retrieval.extras import extra

    with extra("training"):
        from swiftlet.train import train_recipe
    train_recipe(
        recipe,
        out,
        overrides=overrides or [],
        resume=resume,
        overwrite=overwrite,
        dry_run=dry_run,
    )


@app.command()
def distill(
    teacher: Annotated[
        str, typer.Option(help="The query encoder to imitate: a folder or a name on the hub.")
    ],
    out: Annotated[Path, typer.Option(help="Directory that the run is kept in.")],
    queries: Annotated[
        list[Path] | None,
        typer.Option(help="A query log: text, JSONL, TSV or a BEIR folder; may be repeated."),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(help="A corpus to take sentences and titles from; may be repeated."),
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(min=1, help="At most so many of them.", show_default="200000")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers that are kept, such as 0,5.", show_default="all")
    ] = None,
    student: Annotated[
        str | None,
        typer.Option(help="Another checkpoint to start from.", show_default="the teacher"),
    ] = None,
    pooling: Annotated[
        PoolingOption | None, typer.Option(help="For a checkpoint that does not say.")
    ] = None,
    projection: Annotated[
        bool | None,
        typer.Option(
            help="Learn a projection to the teacher's width.",
            show_default="for another checkpoint",
        ),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Index in the teacher's space to compare the two on.")
    ] = None,
    test_queries: Annotated[
        Path | None, typer.Option(help="Judged queries for the index; needs --qrels.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Their BEIR or TREC qrels; needs --test-queries.")
    ] = None,
    distance: Annotated[
        DistanceOption | None, typer.Option(help="What is minimised.", show_default="euclidean")
    ] = None,
    ranking: Annotated[
        float | None,
        typer.Option(
            min=0, help="Weight of a contrastive term on the index's documents.", show_default="0"
        ),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Times that each text is read.", show_default="10")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=2, help="Texts a step.", show_default="64")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="After the warm-up.", show_default="0.0005")
    ] = None,
    precision: Annotated[
        TrainingPrecisionOption | None,
        typer.Option(help="What the student computes in.", show_default="fp32"),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any other setting; see docs/distillation.md."
        ),
    ] = None,
    teacher_embeddings: Annotated[
        Path | None,
        typer.Option(
            help="Where the teacher's embeddings are kept for other runs.",
            show_default="teacher-embeddings beside --out",
        ),
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with a model.")
    ] = False,
    resume: Resume = False,
    overwrite: OverwriteRun = False,
) -> None:
    """Distil a small query encoder into the embedding space of an index you already have."""
    from retrieval.extras import extra

    with extra("training"):
        from swiftlet.distill import distill_encoder
    distill_encoder(
        out,
        {
            "teacher": teacher,
            "student": student,
            "layers": layers,
            "pooling": _value(pooling),
            "project": projection,
            "queries": tuple(map(str, queries or ())),
            "corpora": tuple(map(str, corpus or ())),
            "sentences": sentences,
            "index": None if index is None else str(index),
            "distance": _value(distance),
            "ranking": ranking,
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "precision": _value(precision),
            "trust_remote_code": trust_remote_code,
        },
        overrides=overrides or [],
        test_queries=test_queries,
        qrels=qrels,
        teacher_embeddings=teacher_embeddings,
        resume=resume,
        overwrite=overwrite,
    )


@app.command()
def export(
    model: Annotated[
        str, typer.Argument(help="Sentence Transformers or Hugging Face model, a folder or a name.")
    ],
    out: Annotated[Path, typer.Option(help="Encoder directory to write, or to verify.")],
    name: Annotated[
        str | None, typer.Option(help="What to call it.", show_default="the model's name")
    ] = None,
    pooling: Annotated[
        PoolingOption | None, typer.Option(help="For a checkpoint that does not say.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Longest text.", show_default="what the model says")
    ] = None,
    precision: Annotated[
        list[PrecisionOption] | None,
        typer.Option(help="May be repeated.", show_default="all"),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            help="Queries or a corpus to fit int8 to.", show_default="random words", metavar="FILE"
        ),
    ] = None,
    collection: Annotated[
        Path | None, typer.Option(help="BEIR folder to measure the nDCG change of int8 on.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which qrels of the collection.")] = "test",
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Write nothing: measure parity, quality and latency of what is there."
        ),
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Write a model as an ONNX encoder directory, or measure one against its model again."""
    from retrieval.extras import extra

    with extra("export"):
        from swiftlet.export import export_model, verify_export
    (verify_export if verify else export_model)(
        model,
        out,
        name=name,
        pooling=_value(pooling),
        max_tokens=max_tokens,
        precisions=[_value(option) for option in precision or ()],
        calibrate=calibrate,
        collection=collection,
        split=split,
        overwrite=overwrite,
    )


@app.command()
def inspect(
    directory: Annotated[Path, typer.Argument(help="Index, encoder or training directory.")],
) -> None:
    """Say what an artefact is, where it came from, and whether it is whole."""
    import json
    from dataclasses import asdict

    from retrieval.manifest import read_manifest, verify_files

    manifest = read_manifest(directory)
    fields = asdict(manifest)
    files = fields.pop("files")
    output.print_json(json.dumps(fields))
    for name, entry in files.items():
        output.print(f"{name}  {entry['size_bytes']:,} bytes  sha256 {entry['sha256'][:16]}…")
    verify_files(directory, manifest)
    output.print(f"[green]whole[/]: fingerprint {manifest.fingerprint[:16]}")


def _list_skipped(skipped: Any) -> None:
    messages.print(
        f"[yellow]{skipped.count:,} bad lines skipped[/]" + (":" if skipped.count else "")
    )
    for message in skipped.messages:
        messages.print(f"  {message}", markup=False, soft_wrap=True)
    if skipped.count > len(skipped.messages):
        messages.print(f"  and {skipped.count - len(skipped.messages):,} more")


def _value(option: StrEnum | None) -> Any:
    return None if option is None else option.value
