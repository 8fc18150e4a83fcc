"""Rules of the service that OpenAPI cannot express, as hooks of Schemathesis."""

import json
from typing import Any

import schemathesis


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Send whole numbers without a fraction, no dimensions, and no fields that exclude each other.

    A filter, a boost or a sort that the document allows may name fields that no document has; it is
    replaced by one.

    JSON Schema accepts 10.0 as a whole number, the service does not. `dimensions` may only be the
    encoder's number.
    """
    for fields in (case.body, case.query):
        if not isinstance(fields, dict):
            continue
        if isinstance(chosen := fields.get("filter"), dict | str):
            known = {"topic": "bread"}
            fields["filter"] = known if isinstance(chosen, dict) else json.dumps(known)
        known = {"filter": {"topic": "bread"}, "weight": 0.1}
        if isinstance(boost := fields.get("boost"), str):
            fields["boost"] = json.dumps(known)
        elif isinstance(boost, dict | list) and is_right(case):
            fields["boost"] = known
        if f"{fields.get('sort')}".endswith((":asc", ":desc")):
            fields["sort"] = "topic:asc"
            others = {"rerank": None, "group_by": None, "fusion": "weighted"}
            if any(fields.get(name, usual) != usual for name, usual in others.items()):
                del fields["sort"]
        if fields.get("format") == "context" and is_right(case):
            for name in ("group_by", "highlight", "include_text"):
                fields.pop(name, None)
        if "ids" in fields:  # either ids or a filter
            fields.pop("filter", None)
        # A cursor comes from an answer, and groups have no pages.
        fields.pop("cursor", None)
        if fields.get("group_by") is not None:
            fields.pop("offset", None)
            fields["group_by"] = "topic"
            fields["top_k"] = fields["group_size"] = 3
            fields.pop("rerank", None)
        if isinstance(fields.get("rerank"), str):
            fields["rerank"] = '{"top_n": 3}'
        if fields.get("fusion") == "rrf":
            for name in ("weight", "offset", "boost"):
                fields.pop(name, None)
        # The nearest sentence is marked for 50 documents at most, and no text has no marks.
        if fields.get("highlight") == "sentence" or fields.get("include_text") in (False, "false"):
            fields.pop("highlight", None)
    if isinstance(case.body, dict):
        # An embedding has as many numbers as those of the index; without one, there is a query.
        case.body = {
            name: whole(value)
            for name, value in case.body.items()
            if name not in {"embedding", "embeddings"} or not is_valid(value)
        }
        if is_right(case):
            texts = {"/search": ("query", "bread"), "/search/batch": ("queries", ["bread"])}
            if case.path in texts:
                case.body.setdefault(*texts[case.path])
        if case.path == "/rerank":
            if is_right(case):  # either documents or texts
                name = "texts" if case.body.get("texts") else "documents"
                case.body.pop("documents" if name == "texts" else "texts", None)
                case.body[name] = case.body.get(name) or ["a text"]
        elif isinstance(documents := case.body.get("documents"), list):
            # Ids are not blank and come once; a document has a text, or a title. An embedding has
            # as many numbers as those of the index.
            case.body["documents"] = [
                {**each, "_id": f"{number}", "text": f"Text {number}.", "embedding": None}
                if isinstance(each, dict) and is_right(case)
                else each
                for number, each in enumerate(documents)
            ]
        if type(case.body.get("dimensions")) is int:
            case.body["dimensions"] = None


def is_right(case: Any) -> bool:
    """Whether the document allows the request."""
    return bool(case.meta.generation.mode.is_positive)


def is_valid(value: object) -> bool:
    """Whether a value is a list of numbers, or of lists of numbers, and none is empty."""
    if isinstance(value, list):
        return bool(value) and all(map(is_valid, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
