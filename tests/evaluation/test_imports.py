import subprocess
import sys


def test_the_extra_is_only_imported_when_something_is_evaluated():
    script = """
import sys
import evaluation.experiment, evaluation.metrics, evaluation.report, evaluation.significance
import evaluation.comparison_rendering, evaluation.embedding_plots, evaluation.quality_plots
import evaluation.training_plots
evaluation.metrics.Metric.parse("nDCG@10")
print(*{"ranx", "numba", "scipy", "httpx", "matplotlib", "sklearn"} & sys.modules.keys())
"""
    imported = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert imported.stdout.strip() == ""
