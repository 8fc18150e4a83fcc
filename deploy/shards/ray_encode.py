"""Encodes a corpus on a Ray cluster: each task makes one shard, on as many cores as it asks for.

    pip install ray
    python ray_encode.py CORPUS OUT --shards 8 --cpus 4

CORPUS and OUT are absolute paths on storage that all machines have. A task that fails is started
again, and goes on with the embeddings that it has. Then: swiftlet index --from-shards OUT --out DIR
"""

import argparse
from pathlib import Path

import ray

import swiftlet


def encode(corpus: str, out: Path, number: int, of: int, threads: int) -> str:
    """Make a shard, unless it is there."""
    place = out / f"{number}"
    if not place.exists():
        swiftlet.encode(corpus, place, shard=(number, of), threads=threads)
    return f"{place}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus")
    parser.add_argument("out", type=Path)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--cpus", type=int, default=1, help="cores of a task")
    options = parser.parse_args()
    ray.init()
    task = ray.remote(num_cpus=options.cpus, max_retries=5)(encode)
    place = options.corpus, options.out.resolve()
    waiting = [
        task.remote(*place, number, options.shards, options.cpus)
        for number in range(1, options.shards + 1)
    ]
    while waiting:
        done, waiting = ray.wait(waiting)
        print(ray.get(done[0]), flush=True)


if __name__ == "__main__":
    main()
