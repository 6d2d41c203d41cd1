"""The audit log: who did what, when."""

import csv
from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlplane.core.models import Event
from controlplane.core.paging import COUNT_LIMIT, page_of
from controlplane.ops import queries
from controlplane.ops.forms import EventFilterForm

# A spreadsheet runs a cell that starts with one of these as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
CSV_COLUMNS = ("id", "at", "name", "actor", "subject_type", "subject_id", "subject_label", "sentence")


@require_GET
def event_list(request: HttpRequest) -> HttpResponse:
    form = EventFilterForm(request.GET)
    found = queries.events(form.wanted())
    if request.GET.get("format") == "csv":
        return _csv(found.defer("data")[:COUNT_LIMIT])
    page = page_of(found, request.GET.get("page"))
    rows = [(event, queries.address_of(event.subject_type, event.subject_id)) for event in page.items]
    context = {"page": page, "rows": rows, "form": form, "kinds": queries.kinds(), "is_filtered": _is_filtered(form)}
    template = "ops/event_list.html#rows" if request.headers.get("HX-Request") else "ops/event_list.html"
    return render(request, template, context)


def _is_filtered(form: EventFilterForm) -> bool:
    return any(str(form[name].value() or "") for name in form.fields)


def _csv(events: Iterable[Event]) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="events.csv"'
    writer = csv.writer(response)
    writer.writerow(CSV_COLUMNS)
    writer.writerows([_cell(getattr(event, column)) for column in CSV_COLUMNS] for event in events)
    return response


def _cell(value: Any) -> str:
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
