"""What lists share: the same rows as page, fragment and CSV; and what forms share: faults at their fields."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse, QueryDict

from controlplane.core.errors import Problem

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What a list was asked for: `?q=…&sort=…` and the fields that a list adds, all of them text, all optional."""

    q: str = ""
    sort: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        return cls(**{name: query.get(name, "") for name in cls._names()})

    @property
    def is_set(self) -> bool:
        """Whether it leaves anything out."""
        return any(getattr(self, name) for name in self._names() if name != "sort")

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in fields(cls)]


def template_of(request: HttpRequest, page: str, partial: str) -> str:
    """`page`, or only its `partial` when htmx asks for that part. A boosted or restored page is a whole one."""
    htmx: Any = getattr(request, "htmx", None)
    is_fragment = bool(htmx) and not htmx.boosted and not htmx.history_restore_request
    return f"{page}#{partial}" if is_fragment else page


def wants_csv(request: HttpRequest) -> bool:
    return request.GET.get("format") == "csv"


def csv_response(name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """A download of `rows`. Missing is an empty cell, and no cell starts a formula in a spreadsheet."""
    response = HttpResponse(
        content_type="text/csv; charset=utf-8", headers={"Content-Disposition": f'attachment; filename="{name}.csv"'}
    )
    writer = csv.writer(response)
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return response


def put_into(form: BaseForm, problem: Problem) -> None:
    """Each fault beside its field; what belongs to none goes on top. The input stays."""
    faults = [fault for fault in problem.extra.get("problems", []) if fault.get("field") in form.fields]
    for fault in faults:
        form.add_error(fault["field"], " ".join(filter(None, [fault["message"], fault.get("remedy")])))
    if not faults:
        form.add_error(None, f"{problem.sentence} {problem.remedy}".strip())


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return "'" + value
    return value.isoformat() if hasattr(value, "isoformat") else value
