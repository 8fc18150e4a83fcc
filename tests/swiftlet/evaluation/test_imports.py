import subprocess
import sys


def test_the_extra_is_only_imported_when_something_is_evaluated():
    script = """
import sys
import swiftlet.evaluation.experiment
import swiftlet.evaluation.metrics
import swiftlet.evaluation.report
import swiftlet.evaluation.significance
swiftlet.evaluation.metrics.Metric.parse("nDCG@10")
heavy = {"scipy", "httpx", "matplotlib", "sklearn", "pandas", "tabulate", "jinja2"}
print(*heavy & sys.modules.keys())
"""
    imported = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert imported.stdout.strip() == ""
