"""What the service takes and no OpenAPI document can state, told to Schemathesis by contract.py."""

from typing import Any

import schemathesis


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:  # noqa: ARG001
    """Send whole numbers as JSON writes them, and no dimensions.

    JSON Schema takes 10.0 for a whole number, and the service does not. The one number that
    `dimensions` may be is the encoder's, which changes with it.
    """
    if isinstance(case.body, dict):
        case.body = {name: whole(value) for name, value in case.body.items()}
        if type(case.body.get("dimensions")) is int:
            case.body["dimensions"] = None


def whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
