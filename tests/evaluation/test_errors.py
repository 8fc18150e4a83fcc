import subprocess
import sys

import pytest

from evaluation.errors import EvaluationError, evaluation_extra


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it():
    message = r"needs the package 'no_such_package': pip install 'swiftlet-retrieval\[evaluation\]'"
    with pytest.raises(EvaluationError, match=message), evaluation_extra():
        import no_such_package  # noqa: F401


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
