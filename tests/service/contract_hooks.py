"""Rules of the service that OpenAPI cannot express, as hooks of Schemathesis."""

from typing import Any

import schemathesis


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Send whole numbers without a fraction, no dimensions, and no weight with rrf.

    JSON Schema accepts 10.0 as a whole number, the service does not. `dimensions` may only be the
    encoder's number.
    """
    for fields in (case.body, case.query):
        if isinstance(fields, dict) and fields.get("fusion") == "rrf":
            fields.pop("weight", None)
    if isinstance(case.body, dict):
        case.body = {name: whole(value) for name, value in case.body.items()}
        if type(case.body.get("dimensions")) is int:
            case.body["dimensions"] = None


def whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
