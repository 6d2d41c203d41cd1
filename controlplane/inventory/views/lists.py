"""What the lists share: filters out of the query, and the same rows as CSV."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _

from controlplane.core.errors import Problem
from controlplane.inventory.forms import HostForm, ModelForm

ROWS_PER_PAGE = 25
"""A row has up to eight GPUs or copies, each drawn on the server; 25 keep a page within 150 ms."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class ListFilter:
    """`?q=…&state=…&transport=…&source=…&host=…&sort=…`; a list uses those it has."""

    q: str = ""
    state: str = ""
    transport: str = ""
    source: str = ""
    host: str = ""
    sort: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        return cls(**{name: query.get(name, "") for name in cls.__dataclass_fields__})

    @property
    def is_set(self) -> bool:
        """Whether it leaves anything out."""
        return any((self.q, self.state, self.transport, self.source, self.host))


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


def put_into(form: HostForm | ModelForm, problem: Problem) -> None:
    """Each fault beside its field; what belongs to none goes on top. The input stays."""
    faults = [fault for fault in problem.extra.get("problems", []) if fault.get("field") in form.fields]
    for fault in faults:
        form.add_error(fault["field"], " ".join(filter(None, [fault["message"], fault.get("remedy")])))
    if not faults:
        form.add_error(None, f"{problem.sentence} {problem.remedy}".strip())


def yes_no(value: bool) -> str:
    return _("yes") if value else _("no")


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return "'" + value
    return value.isoformat() if hasattr(value, "isoformat") else value
