"""Invented rows, and the stopwatch."""

import io
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from controlplane.accounts.models import User
from controlplane.bench.models import Metric, Run, Workload
from controlplane.core.models import Event
from controlplane.fleet.models import Environment, Instance
from controlplane.inventory.models import Host
from controlplane.web.management import seeding, timed, timing
from controlplane.web.tests import worlds

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZES = seeding.Sizes(hosts=4, instances=12, runs=30, measured_runs=3)


@pytest.fixture
def environments(db: None) -> None:
    for rank, name in ((20, "production"), (10, "staging")):
        Environment.objects.get_or_create(name=name, defaults={"rank": rank})


def rows(model: type[Model], *fields: str) -> list[tuple[object, ...]]:
    return list(model._default_manager.order_by("pk").values_list(*fields))


@pytest.mark.usefixtures("environments")
def test_it_makes_what_was_asked_for_and_only_the_newest_runs_have_metrics() -> None:
    made = seeding.seed(SIZES, now=NOW)
    assert (Host.objects.count(), Instance.objects.count(), Run.objects.count()) == (4, 12, 30)
    assert made["events"] == Event.objects.count() == 4 + 2 * 12 + 30
    newest = set(Run.objects.order_by("-id").values_list("pk", flat=True)[:3])
    assert set(Metric.objects.values_list("run", flat=True)) == newest
    assert Run.objects.order_by("id").last().created_at < NOW  # type: ignore[union-attr]


@pytest.mark.usefixtures("environments")
def test_the_same_sizes_give_the_same_figures() -> None:
    fields = ("job_id", "state", "output_throughput", "created_at")
    seeding.seed(SIZES, now=NOW)
    first = rows(Run, *fields)
    seeding.remove()
    seeding.seed(SIZES, now=NOW)
    assert rows(Run, *fields) == first
    seeding.remove()
    seeding.seed(SIZES, now=NOW, number=2)
    assert rows(Run, *fields) != first


@pytest.mark.usefixtures("environments")
def test_removing_takes_everything_invented_and_nothing_real() -> None:
    here = worlds.host()
    worlds.instance("chat-0", on=here)
    worlds.host("seed-of-doubt")
    Workload.objects.create(name="seed-mine", spec={}, digest="w")
    assert seeding.existing() == {"hosts": 2, "configs": 1, "instances": 1}
    seeding.seed(SIZES, now=NOW)
    assert seeding.existing() == {"hosts": 2, "configs": 1, "instances": 1}
    seeding.remove()
    assert (Host.objects.count(), Instance.objects.count(), Run.objects.count()) == (2, 1, 0)
    assert Workload.objects.filter(name="seed-mine").exists()


@pytest.mark.usefixtures("environments")
def test_a_database_with_real_rows_is_left_alone_unless_forced() -> None:
    worlds.host()
    sizes = ("--hosts=2", "--instances=4", "--runs=4", "--measured-runs=1")
    with pytest.raises(CommandError, match="holds 1 hosts"):
        call_command("seed_large", *sizes)
    assert Host.objects.count() == 1
    out = io.StringIO()
    call_command("seed_large", *sizes, "--force", stdout=out)
    assert Host.objects.count() == 3
    assert "4 instances" in out.getvalue()
    call_command("seed_large", "--remove", stdout=out)
    assert Host.objects.count() == 1


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(1, 41)]
    assert timing.percentile(values, 0.95) == 38.0
    assert timing.percentile(values, 0.5) == 20.0
    assert timing.percentile([7.0], 0.95) == 7.0


# -- What is timed ---------------------------------------------------------------------------------------------------


@pytest.fixture
def seeded(environments: None) -> Client:
    """A browser of an administrator, where everything is to be seen."""
    seeding.seed(SIZES, now=NOW)
    return timing.signed_in()


def test_every_address_is_timed_or_told_why_not_or_takes_no_get(seeded: Client) -> None:
    known = {**timed.examples(), "format": "systemd", "token_id": 1, "person_id": 1, "deployment_id": 1}
    unknown = []
    for name, parameters in timed.addresses().items():
        url = reverse(name, kwargs={parameter: known[parameter] for parameter in parameters})
        is_page = name not in timed.PAGES and name not in timed.NOT_TIMED and seeded.get(url).status_code != 405
        unknown += [name] if is_page else []
    assert unknown == []
    assert not timed.PAGES.keys() & timed.NOT_TIMED.keys()
    assert {*timed.PAGES, *timed.NOT_TIMED} - timed.addresses().keys() <= {"web:styleguide"}, "no such address"


def test_every_get_operation_of_the_api_is_timed(seeded: Client) -> None:
    described = seeded.get(reverse(timed.DESCRIPTION)).json()["paths"]
    wanted = {path for path, methods in described.items() if "get" in methods}
    found, missing = timed.targets(seeded)
    assert missing == []
    paths = {target.label.removeprefix("GET ").partition("?")[0] for target in found if target.label.startswith("GET ")}
    assert paths == wanted
    assert timed.API_QUERIES.keys() <= wanted


@pytest.mark.slow
def test_every_target_answers_and_shows_rows(seeded: Client) -> None:
    found, _missing = timed.targets(seeded)
    assert len({target.label for target in found}) == len(found)
    for target in found:
        assert seeded.get(target.url).status_code == 200, target


def test_what_an_empty_installation_cannot_show_is_told(environments: None) -> None:
    found, missing = timed.targets(timing.signed_in())
    labels = {target.label for target in found}
    assert {"web:overview", "ops:event_list", "GET /api/v1/events"} <= labels
    assert "inventory:host_detail: no host_id to show" in missing
    assert "GET /api/v1/compare?runs={run_ids}: no run_ids to show" in missing


@pytest.mark.usefixtures("environments")
def test_the_present_database_is_timed_and_a_miss_is_an_error() -> None:
    out = io.StringIO()
    arguments = ("--present", "--repetitions=2", "--only=ops:")
    call_command("time_pages", *arguments, "--aim-ms=60000", stdout=out)
    assert "within 60000 ms" in out.getvalue()
    assert not User.objects.exists()
    with pytest.raises(CommandError, match="ops:event_list"):
        call_command("time_pages", *arguments, "--aim-ms=0.01", stdout=out)
