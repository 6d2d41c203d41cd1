"""The audit log: who did what, when."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from controlplane.core.listing import csv_response, template_of, wants_csv
from controlplane.core.paging import COUNT_LIMIT, page_of
from controlplane.ops import queries
from controlplane.ops.forms import EventFilterForm

CSV_COLUMNS = ("id", "at", "name", "actor", "subject_type", "subject_id", "subject_label", "sentence")


@require_GET
def event_list(request: HttpRequest) -> HttpResponse:
    form = EventFilterForm(request.GET)
    found = queries.events(form.wanted())
    if wants_csv(request):
        return csv_response("events", CSV_COLUMNS, found.values_list(*CSV_COLUMNS)[:COUNT_LIMIT])
    page = page_of(found, request.GET.get("page"))
    rows = [(event, queries.address_of(event.subject_type, event.subject_id)) for event in page.items]
    is_filtered = any(str(form[name].value() or "") for name in form.fields)
    context = {"page": page, "rows": rows, "form": form, "kinds": queries.kinds(), "is_filtered": is_filtered}
    return render(request, template_of(request, "ops/event_list.html", "rows"), context)
