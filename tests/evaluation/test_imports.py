import subprocess
import sys


def test_the_extra_is_only_imported_when_something_is_evaluated():
    script = """
import sys
import evaluation.experiment, evaluation.metrics, evaluation.report, evaluation.significance
evaluation.metrics.Metric.parse("nDCG@10")
print(*{"ranx", "numba", "scipy", "httpx"} & sys.modules.keys())
"""
    imported = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert imported.stdout.strip() == ""
