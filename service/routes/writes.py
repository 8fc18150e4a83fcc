"""Putting and deleting documents."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field, WithJsonSchema
from typing_extensions import override

from service.live.state import ReadyService
from service.live.writing import Writing
from service.wire.answers import WriteAnswer
from service.wire.body import JsonRoute
from service.wire.openapi import problems
from service.wire.problems import (
    InvalidRequestError,
    QueueFullError,
    TooManyQueriesError,
    WriteRefusedError,
)
from service.wire.requests import GivenFilter, Limits, RequestModel
from swiftlet.corpora.identifiers import LONGEST_ID
from swiftlet.errors import (
    CollectionError,
    IndexServerError,
    IndexServerTimeoutError,
    InvalidArgumentError,
    StorageError,
    UnknownDocumentError,
    shown,
)
from swiftlet.index.columns.filters import Every
from swiftlet.index.updates.writer import Changed

_REFUSALS = (
    InvalidArgumentError,
    TooManyQueriesError,
    WriteRefusedError,
    QueueFullError,
    StorageError,
    IndexServerError,
    IndexServerTimeoutError,
)
_DOCUMENT = {
    "type": "object",
    "properties": {
        "_id": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_ID,
            "description": "No control characters, and not blank.",
        },
        "text": {"type": "string", "description": "Not blank, unless there is a title."},
        "title": {"type": ["string", "null"]},
        "metadata": {"type": ["object", "null"]},
        "embedding": {
            "type": ["array", "null"],
            "items": {"type": "number"},
            "description": "The vector of the whole document, by the model of the index's vectors.",
        },
    },
    "required": ["_id", "text"],
    "description": 'an object with "_id", "text" and perhaps "title", "embedding" and "metadata" '
    "(which has all further fields)",
}


MOST_VALUES = 50_000
"""Values of one write, nested ones included: fifty for each of a thousand documents."""


def writes_router(limits: Limits, writing: Writing) -> APIRouter:
    """The routes that change the index, with the bounds of `limits`."""
    listed, most = f"a list of 1 to {limits.max_documents}", limits.max_documents
    an_id = f"an id of up to {LONGEST_ID} characters"

    class PutRequest(RequestModel):
        """The body of `PUT /documents`."""

        documents: list[Annotated[dict[str, Any], WithJsonSchema(_DOCUMENT)]] = Field(
            min_length=1,
            max_length=most,
            description=f'{listed} objects with "_id", "text" and perhaps "title" and "metadata"',
        )

    class DeleteRequest(RequestModel):
        """The body of `POST /documents/delete`: documents with these ids, or those that pass."""

        model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

        ids: list[Annotated[str, Field(max_length=LONGEST_ID, description=an_id)]] = Field(
            [],
            min_length=1,
            max_length=most,
            description=f"{listed} ids of up to {LONGEST_ID} characters",
        )
        filter: GivenFilter = Field(default_factory=lambda: Every(()))

    class WriteRoute(JsonRoute):
        most_values = MOST_VALUES
        remedy = "send fewer at once"
        refuses_overload = False

        @override
        def check_queue(self) -> None:
            writing.check_queue()

    router = APIRouter(route_class=WriteRoute)

    @router.put("/documents", responses=problems(*_REFUSALS, body=True))
    async def put(asked: PutRequest) -> WriteAnswer:
        """Add documents; one with an id that the index has replaces the earlier document."""
        try:
            return _answer(await writing.put(asked.documents))
        except CollectionError as error:
            raise _refused_document(error, asked.documents) from error

    @router.post("/documents/delete", responses=problems(*_REFUSALS, body=True))
    async def delete(asked: DeleteRequest) -> WriteAnswer:
        """Delete the documents with some ids, or all that pass a filter."""
        if len(asked.model_fields_set) != 1:
            found = (
                "both ids and a filter" if asked.model_fields_set else "neither ids nor a filter"
            )
            raise InvalidRequestError("", f"the body has {found}: give either ids or filter")
        if "ids" in asked.model_fields_set:
            return _answer(await writing.delete(asked.ids))
        return _answer(await writing.delete([], asked.filter))

    @router.delete(
        "/documents/{document_id:path}", responses=problems(UnknownDocumentError, *_REFUSALS)
    )
    async def delete_one(document_id: str, service: ReadyService) -> WriteAnswer:  # noqa: ARG001
        """Delete a document."""
        return _answer(await writing.delete([document_id], missing_ok=False))

    return router


def _answer(changed: Changed) -> WriteAnswer:
    return WriteAnswer(
        documents=changed.num_documents, unknown=list(changed.unknown), change=changed.change
    )


def _refused_document(bad: CollectionError, documents: list[dict[str, Any]]) -> InvalidRequestError:
    """Name the document by its position, and by its id unless the problem has it."""
    position = (bad.line_number or 1) - 1
    field, document_id = f"documents[{position}]", documents[position].get("_id")
    if isinstance(document_id, str) and shown(document_id) not in bad.problem:
        return InvalidRequestError(field, f"{field} ({shown(document_id)}): {bad.problem}")
    return InvalidRequestError(field, f"{field}: {bad.problem}")
