#!/bin/sh
# Encodes one of N shards of a corpus: encode.sh CORPUS OUT N [options of swiftlet encode]
# Slurm: sbatch --array=1-8 encode.sh CORPUS OUT 8. A Kubernetes Job with completionMode Indexed and
# 8 completions: the same arguments. By hand: SHARD=1 encode.sh CORPUS OUT 8
#SBATCH --cpus-per-task=4
#SBATCH --requeue
set -eu
corpus=$1 out=$2 of=$3
shift 3
if [ -n "${JOB_COMPLETION_INDEX:-}" ]; then
    SHARD=$((JOB_COMPLETION_INDEX + 1))
fi
number=${SHARD:-${SLURM_ARRAY_TASK_ID:?"no scheduler has set the number of the shard: set SHARD"}}
if [ -f "$out/$number/manifest.json" ]; then # a task that is started again
    exit 0
fi
exec swiftlet encode "$corpus" --shard "$number/$of" --out "$out/$number" "$@"
