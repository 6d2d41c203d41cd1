"""What all API operations share: the shape of a problem and of a page of items."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.http import JsonResponse
from ninja import Field, Schema
from pydantic import ConfigDict

from controlplane.core.errors import Problem
from controlplane.core.paging import Page

T = TypeVar("T")
PROBLEM_TYPE = "application/problem+json"


class BodyIn(Schema):
    """The body of a request. A field that there is not is refused: a misspelt one would be a default, unseen."""

    model_config = ConfigDict(extra="forbid")


class ProblemOut(Schema):
    """RFC 9457 with a stable `code`, a sentence for people (`title`) and the next step (`remedy`)."""

    status: int
    code: str
    title: str
    remedy: str
    problems: list[dict[str, Any]] = Field(
        default_factory=list, description="Every single fault, where there are several."
    )


class PageOut(Schema, Generic[T]):
    """One page of a list; `total` is exact while `total_is_exact`, else a lower bound."""

    items: list[T]
    page: int
    size: int
    total: int
    total_is_exact: bool


def page_out(page: Page[Any], item: Callable[[Any], T]) -> dict[str, Any]:
    """`page` as the answer of an operation that returns PageOut."""
    return {
        "items": [item(row) for row in page.items],
        "page": page.number,
        "size": page.size,
        "total": page.total,
        "total_is_exact": page.total_is_exact,
    }


def problem_response(
    status: int, code: str, sentence: str, remedy: str = "", problems: list[dict[str, Any]] | None = None
) -> JsonResponse:
    body = {"status": status, "code": code, "title": sentence, "remedy": remedy, "problems": problems or []}
    return JsonResponse(body, status=status, content_type=PROBLEM_TYPE)


def problem_of(error: Problem) -> JsonResponse:
    return problem_response(
        error.status, error.code, error.sentence, error.remedy, [dict(p) for p in error.extra.get("problems", [])]
    )
