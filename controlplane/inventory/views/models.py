"""Models: which weights we have, where, how big, which configs use them."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.core.errors import Problem
from controlplane.core.listing import csv_response, put_into, wants_csv
from controlplane.core.paging import page_of
from controlplane.core.permissions import require_operator
from controlplane.inventory import queries, services
from controlplane.inventory.domain.model_facts import Summary, summary
from controlplane.inventory.forms import ModelForm
from controlplane.inventory.models import Host, ModelArtifact
from controlplane.inventory.views.lists import ROWS_PER_PAGE, InventoryFilter


@require_GET
def model_list(request: HttpRequest) -> HttpResponse:
    """All models with the figures of their best-known copy."""
    chosen = InventoryFilter.of(request.GET)
    found = queries.models(search=chosen.q, host=chosen.host, source=chosen.source, sort=chosen.sort)
    if wants_csv(request):
        return _models_as_csv(found)
    page = page_of(found, request.GET.get("page"), size=ROWS_PER_PAGE)
    context = {
        "page": page,
        "rows": _rows(page.items),
        "filter": chosen,
        "sources": ModelArtifact.Source.choices,
        "hosts": Host.objects.values_list("name", flat=True),
        "is_moving": any(copy.is_being_read for model in page.items for copy in model.copies.all()),
        "is_empty": not page.total and not chosen.is_set,
    }
    template = "inventory/model_list.html#rows" if request.headers.get("HX-Request") else "inventory/model_list.html"
    return render(request, template, context)


@require_http_methods(["GET", "POST"])
def model_add(request: HttpRequest) -> HttpResponse:
    """Register weights and the hosts to look on."""
    actor = require_operator(request)
    names = list(Host.objects.values_list("name", flat=True))
    form = ModelForm(request.POST or None, host_names=names, initial={"hosts": names[:1]})
    if request.method == "POST" and form.is_valid():
        try:
            model = services.add_model(**form.cleaned_data, actor=actor)
        except Problem as problem:
            put_into(form, problem)
        else:
            return redirect("inventory:model_detail", model.pk)
    return render(request, "inventory/model_form.html", {"form": form}, status=422 if form.errors else 200)


@require_GET
def model_detail(request: HttpRequest, model_id: int) -> HttpResponse:
    """One model: what its files say on every host, and who serves it."""
    model = get_object_or_404(queries.model_details(), pk=model_id)
    copies = list(model.copies.all())
    context: dict[str, Any] = {
        "model": model,
        "copies": [{"copy": copy, "summary": summary(copy.facts)} for copy in copies],
        "best": _best(model),
        "facts": next((copy.facts for copy in copies if copy.facts), {}),
        "configs": queries.configs_using([model.location]).get(model.location, []),
        "other_hosts": Host.objects.exclude(pk__in=[copy.host_id for copy in copies]).values_list("name", flat=True),
        "is_moving": any(copy.is_being_read for copy in copies),
        "events": queries.events_of("modelartifact", model.pk),
        "api_call": f"curl -H 'Authorization: Bearer …' {request.build_absolute_uri(f'/api/v1/models/{model.pk}')}",
    }
    template = "inventory/model_detail.html"
    return render(request, f"{template}#live" if request.headers.get("HX-Request") else template, context)


@require_POST
def model_inspect(request: HttpRequest, model_id: int) -> HttpResponse:
    """Read the files again, or (with `host`) on one more host."""
    actor = require_operator(request)
    model = get_object_or_404(ModelArtifact, pk=model_id)
    if host := request.POST.get("host"):
        services.look_on_host(model=model, host_name=host, actor=actor)
    else:
        services.inspect_again(model=model, actor=actor)
    return redirect("inventory:model_detail", model_id)


@require_POST
def model_remove(request: HttpRequest, model_id: int) -> HttpResponse:
    actor = require_operator(request)
    model = get_object_or_404(ModelArtifact, pk=model_id)
    services.remove_model(model=model, actor=actor)
    messages.success(request, _("%(name)s is forgotten. Its files are where they were.") % {"name": model.name})
    return redirect("inventory:model_list")


def _best(model: ModelArtifact) -> Summary:
    """The figures of the first copy that could be read."""
    return summary(next((copy.brief_facts for copy in model.copies.all() if copy.brief_facts), {}))


def _rows(models: Any) -> list[dict[str, Any]]:
    used = queries.configs_using([model.location for model in models])
    return [{"model": model, "best": _best(model), "configs": used.get(model.location, [])} for model in models]


def _models_as_csv(found: Any) -> HttpResponse:
    header = ("name", "source", "location", "revision", "architecture", "parameters", "dtype", "quantisation")
    rows = (
        (
            row["model"].name,
            row["model"].source,
            row["model"].location,
            row["model"].revision,
            *(row["best"].architecture, row["best"].parameters, row["best"].dtype, row["best"].quantisation),
            *(row["best"].size_bytes, row["best"].max_positions),
            " ".join(copy.host.name for copy in row["model"].copies.all()),
            " ".join(row["configs"]),
        )
        for row in _rows(list(found))
    )
    return csv_response("models", (*header, "size_bytes", "max_positions", "hosts", "configs"), rows)
