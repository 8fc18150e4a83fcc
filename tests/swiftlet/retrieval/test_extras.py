import pytest

from swiftlet.errors import MissingExtraError
from swiftlet.extras import extra


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it():
    message = r"'no_such_package' is not installed: .* constraints\.txt '\.\[evaluation\]'"
    with pytest.raises(MissingExtraError, match=message), extra("evaluation"):
        import no_such_package  # noqa: F401
