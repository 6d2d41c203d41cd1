"""Hosts and the vLLM builds on them. No page waits for a host: the worker looks, the page shows and refreshes."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.core.errors import Problem
from controlplane.core.listing import csv_response, put_into, template_of, wants_csv
from controlplane.core.paging import page_of
from controlplane.core.permissions import require_admin, require_operator
from controlplane.inventory import queries, services
from controlplane.inventory.forms import HostForm
from controlplane.inventory.models import Engine, Host
from controlplane.inventory.views.lists import ROWS_PER_PAGE, InventoryFilter, yes_no

SELDOM = "10s"
"""How often a page refreshes while nothing is under way: a host may fall silent at any time."""


@require_GET
def host_list(request: HttpRequest) -> HttpResponse:
    """All hosts: state, GPUs, engines, instances, last answer."""
    chosen = InventoryFilter.of(request.GET)
    found = queries.hosts(search=chosen.q, state=chosen.state, transport=chosen.transport, sort=chosen.sort)
    if wants_csv(request):
        return _hosts_as_csv(found)
    page = page_of(found, request.GET.get("page"), size=ROWS_PER_PAGE)
    context = {
        "page": page,
        "filter": chosen,
        "states": Host.State.choices,
        "refresh": "3s" if any(host.is_probing for host in page.items) else SELDOM,
        "is_empty": not page.total and not chosen.is_set,
    }
    return render(request, template_of(request, "inventory/host_list.html", "rows"), context)


@require_http_methods(["GET", "POST"])
def host_add(request: HttpRequest) -> HttpResponse:
    """Register a host; the worker then fetches its key or probes it."""
    actor = require_admin(request)
    form = HostForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            host = services.add_host(
                name=data["name"],
                ssh=form.access(is_ssh=data["transport"] == Host.Transport.SSH),
                engine_paths=data["engine_paths"],
                note=data["note"],
                actor=actor,
            )
        except Problem as problem:
            put_into(form, problem)
        else:
            return redirect("inventory:host_detail", host.pk)
    return render(request, "inventory/host_form.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "POST"])
def host_edit(request: HttpRequest, host_id: int) -> HttpResponse:
    """Change how a host is reached, where its engines are, and the note."""
    actor = require_admin(request)
    host = get_object_or_404(Host.objects.select_related("jump_host"), pk=host_id)
    form = HostForm(request.POST or None, host=host, initial=_initial(host))
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            services.update_host(
                host=host,
                ssh=form.access(is_ssh=not host.is_local),
                engine_paths=data["engine_paths"],
                note=data["note"],
                actor=actor,
            )
        except Problem as problem:
            put_into(form, problem)
        else:
            return redirect("inventory:host_detail", host.pk)
    context = {"form": form, "host": host}
    return render(request, "inventory/host_form.html", context, status=422 if form.errors else 200)


@require_GET
def host_detail(request: HttpRequest, host_id: int) -> HttpResponse:
    """Everything about one host; the fragment refreshes often while it is being looked at."""
    host = get_object_or_404(queries.host_details(), pk=host_id)
    instances = list(queries.live_instances_on(host))
    reading = [engine for engine in host.engines.all() if _awaits_options(engine)]
    context = {
        "host": host,
        "gpus": queries.gpu_views(host, instances),
        "instances": instances,
        "refresh": "2s" if host.is_probing or (reading and host.state == Host.State.REACHABLE) else SELDOM,
        "events": queries.events_of("host", host.pk),
        "api_call": f"curl -H 'Authorization: Bearer …' {request.build_absolute_uri(f'/api/v1/hosts/{host.pk}')}",
    }
    return render(request, template_of(request, "inventory/host_detail.html", "live"), context)


@require_POST
def host_probe(request: HttpRequest, host_id: int) -> HttpResponse:
    services.rescan(host=_host(host_id), actor=require_operator(request))
    return redirect("inventory:host_detail", host_id)


@require_POST
def host_pin(request: HttpRequest, host_id: int) -> HttpResponse:
    """“This is the right key”; with `replace` in place of the pinned one."""
    actor = require_admin(request)
    act = services.replace_host_key if "replace" in request.POST else services.pin_host_key
    act(host=_host(host_id), fingerprint=request.POST.get("fingerprint", ""), actor=actor)
    messages.success(request, _("The key is pinned; any other one is refused from now on."))
    return redirect("inventory:host_detail", host_id)


@require_POST
def host_maintenance(request: HttpRequest, host_id: int) -> HttpResponse:
    actor = require_operator(request)
    services.set_maintenance(host=_host(host_id), is_on=request.POST.get("is_on") == "1", actor=actor)
    return redirect("inventory:host_detail", host_id)


@require_POST
def host_remove(request: HttpRequest, host_id: int) -> HttpResponse:
    actor = require_admin(request)
    host = _host(host_id)
    services.remove_host(host=host, actor=actor)
    messages.success(request, _("%(name)s is removed. Nothing on the machine was touched.") % {"name": host.name})
    return redirect("inventory:host_list")


@require_GET
def engine_detail(request: HttpRequest, engine_id: int) -> HttpResponse:
    """One vLLM build with its searchable options."""
    engine = get_object_or_404(queries.engine_with_options(), pk=engine_id)
    search = request.GET.get("q", "")
    context = {"engine": engine, "q": search, "options": queries.options_of(engine.option_list, search=search)}
    return render(request, template_of(request, "inventory/engine_detail.html", "options"), context)


def _host(host_id: int) -> Host:
    return get_object_or_404(Host, pk=host_id)


def _awaits_options(engine: Engine) -> bool:
    known = engine.option_list_id is not None or engine.option_list_error or engine.missing_since
    return bool(engine.build) and not known


def _initial(host: Host) -> dict[str, Any]:
    names = ("address", "port", "username", "engine_paths", "note")
    jump_host = host.jump_host.name if host.jump_host else ""
    return {name: getattr(host, name) for name in names} | {"jump_host": jump_host}


def _hosts_as_csv(found: Any) -> HttpResponse:
    header = ("name", "state", "transport", "address", "gpus", "gpu_memory_bytes", "engines", "live_instances")
    rows = (
        (
            host.name,
            host.state,
            host.transport,
            host.where,
            len(host.accelerators.all()),
            host.gpu_memory_bytes,
            " ".join(engine.version for engine in host.engines.all()),
            host.live_instances,
            yes_no(host.is_in_maintenance),
            host.last_seen_at,
        )
        for host in found
    )
    return csv_response("hosts", (*header, "in_maintenance", "last_seen_at"), rows)
