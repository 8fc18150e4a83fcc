"""Rules of the service that OpenAPI cannot express, as hooks of Schemathesis."""

from typing import Any

import schemathesis


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Send whole numbers without a fraction, and no dimensions.

    JSON Schema accepts 10.0 as a whole number, the service does not. `dimensions` may only be the
    encoder's number.
    """
    if isinstance(case.body, dict):
        case.body = {name: whole(value) for name, value in case.body.items()}
        if type(case.body.get("dimensions")) is int:
            case.body["dimensions"] = None


def whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
