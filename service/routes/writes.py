"""Putting and deleting documents."""

from typing import Annotated, Any, Self

from fastapi import APIRouter
from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from service.body import json_route
from service.limits import Limits
from service.openapi import problems
from service.problems import (
    InvalidRequestError,
    QueueFullError,
    TooManyQueriesError,
    WriteRefusedError,
)
from service.schemas import RequestModel, WriteAnswer
from service.state import ReadyService
from service.writing import Writing
from swiftlet.indexing.writer import Changed
from swiftlet.retrieval.errors import (
    CollectionError,
    InvalidArgumentError,
    StorageError,
    UnknownDocumentError,
)
from swiftlet.retrieval.filters import parse_filter

_REFUSALS = (
    InvalidArgumentError,
    TooManyQueriesError,
    WriteRefusedError,
    QueueFullError,
    StorageError,
)
_MOST_VALUES = 1_000_000
"""Values of one body: a thousand documents with rich metadata have fewer."""


def writes_router(limits: Limits, writing: Writing) -> APIRouter:
    """The routes that change the index, with the bounds of `limits`."""
    listed = f"a list of 1 to {limits.max_documents}"
    most = limits.max_documents

    class PutRequest(RequestModel):
        """The body of `PUT /documents`."""

        documents: list[dict[str, Any]] = Field(
            min_length=1,
            max_length=most,
            description=f'{listed} objects with "_id", "text" and perhaps "title" and "metadata"',
        )

    class DeleteRequest(RequestModel):
        """The body of `POST /documents/delete`: ids, or a filter."""

        ids: list[str] | None = Field(
            None, min_length=1, max_length=most, description=f"{listed} ids"
        )
        filter: Annotated[dict[str, Any] | None, AfterValidator(_checked)] = Field(
            None, description="a filter"
        )

        @model_validator(mode="after")
        def _has_one(self) -> Self:
            if (self.ids is None) == (self.filter is None):
                raise PydanticCustomError("one_of", "either ids or a filter is expected")
            return self

    router = APIRouter(
        route_class=json_route(
            max_bytes=limits.max_body_bytes,
            timeout_ms=limits.body_timeout_ms,
            most_values=_MOST_VALUES,
            refuses_overload=False,
        )
    )

    @router.put("/documents", responses=problems(*_REFUSALS, body=True))
    async def put(asked: PutRequest) -> WriteAnswer:
        """Add documents; one with an id that the index has replaces the earlier document."""
        try:
            return _answer(await writing.put(asked.documents))
        except CollectionError as error:
            # Without the options that leave bad documents out, which a build has.
            bad = error.__cause__ if isinstance(error.__cause__, CollectionError) else error
            raise InvalidRequestError("documents", f"documents: {bad.problem}") from error

    @router.post("/documents/delete", responses=problems(*_REFUSALS, body=True))
    async def delete(asked: DeleteRequest) -> WriteAnswer:
        """Delete the documents with some ids, or all that pass a filter."""
        if asked.filter is not None:
            return _answer(await writing.delete_where(asked.filter))
        return _answer(await writing.delete(asked.ids or []))

    @router.delete(
        "/documents/{document_id:path}", responses=problems(UnknownDocumentError, *_REFUSALS)
    )
    async def delete_one(document_id: str, service: ReadyService) -> WriteAnswer:  # noqa: ARG001
        """Delete a document."""
        return _answer(await writing.delete([document_id], missing_ok=False))

    return router


def _checked(filter_: dict[str, Any] | None) -> dict[str, Any] | None:
    if filter_ is not None:
        parse_filter(filter_)
    return filter_


def _answer(changed: Changed) -> WriteAnswer:
    return WriteAnswer(
        documents=changed.num_documents, unknown=list(changed.unknown), change=changed.change
    )
