"""The search behind the command palette."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.db.models import Case, IntegerField, Model, QuerySet, Value, When
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from controlplane.bench.models import Run, Workload
from controlplane.configs.models import Config
from controlplane.fleet.models import Environment, Instance
from controlplane.inventory.models import Host, ModelArtifact
from controlplane.web.queries.links import page_url

Address = Callable[[str, Model | None], str]

MOST_HITS = 20
HITS_EACH = 6
RUN_NUMBER = re.compile(r"^(?:run\s*)?#?(\d{1,9})$", re.IGNORECASE)

PAGES: tuple[tuple[str, str | Promise], ...] = (
    ("web:overview", gettext_lazy("Overview")),
    ("inventory:model_list", gettext_lazy("Models")),
    ("configs:config_list", gettext_lazy("Configs")),
    ("configs:what_breaks", gettext_lazy("What breaks on another vLLM version")),
    ("inventory:host_list", gettext_lazy("Hosts")),
    ("fleet:instance_list", gettext_lazy("Instances")),
    ("bench:run_list", gettext_lazy("Benchmark runs")),
    ("bench:workload_list", gettext_lazy("Workloads")),
    ("bench:compare", gettext_lazy("Compare runs")),
    ("release:environment_list", gettext_lazy("Environments")),
    ("ops:event_list", gettext_lazy("Events")),
    ("web:api_docs", gettext_lazy("API reference")),
    ("accounts:settings", gettext_lazy("My account")),
    ("accounts:tokens", gettext_lazy("API tokens")),
    ("web:secrets", gettext_lazy("Secrets")),
    ("web:about", gettext_lazy("About this installation")),
)
OPERATOR_ACTIONS: tuple[tuple[str, str | Promise], ...] = (
    ("fleet:launch", gettext_lazy("Launch an instance")),
    ("bench:run_start", gettext_lazy("Start a benchmark")),
    ("configs:config_import", gettext_lazy("Import a config")),
    ("release:promote", gettext_lazy("Promote a version")),
    ("inventory:model_add", gettext_lazy("Add a model")),
)
ADMIN_ACTIONS: tuple[tuple[str, str | Promise], ...] = (
    ("inventory:host_add", gettext_lazy("Add a host")),
    ("accounts:people", gettext_lazy("Add a person")),
)


@dataclass(frozen=True, slots=True)
class Hit:
    url: str
    title: str
    kind: str
    detail: str = ""


def search(text: str, *, may_operate: bool, may_administer: bool, address: Address = page_url) -> list[Hit]:
    """At most MOST_HITS pages, actions and things called like `text`; those that start with it come first.

    Nothing typed: actions and pages, so that the palette is a menu too. What `address` knows no page of is left out.
    """
    text = text.replace("\0", "").strip()[:100]
    actions = _named(
        (OPERATOR_ACTIONS if may_operate else ()) + (ADMIN_ACTIONS if may_administer else ()),
        text,
        _("action"),
        address,
    )
    pages = _named(PAGES, text, _("page"), address)
    if not text:
        return [*actions, *pages][:MOST_HITS]
    hits = [*_runs(text, address), *_things(text, address), *actions, *pages]
    hits.sort(key=lambda hit: not hit.title.casefold().startswith(text.casefold()))
    return hits[:MOST_HITS]


def _named(entries: tuple[tuple[str, str | Promise], ...], text: str, kind: str, address: Address) -> list[Hit]:
    return [
        Hit(url, str(label), kind)
        for name, label in entries
        if text.casefold() in str(label).casefold() and (url := address(name, None))
    ]


def _runs(text: str, address: Address) -> Iterator[Hit]:
    match = RUN_NUMBER.match(text)
    if not match:
        return
    for run in Run.objects.filter(pk=int(match[1])).select_related("workload").only("workload__name", "state"):
        if url := address("bench:run_detail", run):
            yield Hit(url, _("Run %(number)d") % {"number": run.pk}, _("run"), run.workload.name)


def _things(text: str, address: Address) -> Iterator[Hit]:
    sources: tuple[tuple[QuerySet[Model], str, str], ...] = (
        (Config.objects.all(), "configs:config_detail", _("config")),
        (Instance.objects.only("name"), "fleet:instance_detail", _("instance")),
        (Host.objects.only("name"), "inventory:host_detail", _("host")),
        (ModelArtifact.objects.only("name"), "inventory:model_detail", _("model")),
        (Environment.objects.all(), "release:environment_detail", _("environment")),
        (Workload.objects.only("name"), "bench:workload_detail", _("workload")),
    )
    for rows, page, kind in sources:
        starts = Case(When(name__istartswith=text, then=Value(0)), default=Value(1), output_field=IntegerField())
        matching = rows.filter(name__icontains=text).order_by(starts, "name")
        for row in matching[:HITS_EACH]:
            if url := address(page, row):
                yield Hit(url, str(row), kind)
