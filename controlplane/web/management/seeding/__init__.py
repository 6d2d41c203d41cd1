"""Invented but plausible rows of every kind, many at a time: what pages and lists are timed with.

The same `Sizes` and number give the same rows, save that times count back from now.
"""

import random
from datetime import datetime

from django.db import connection, transaction

from controlplane.bench.models import Run, Workload
from controlplane.configs.models import Config
from controlplane.core.models import Event
from controlplane.fleet.models import Deployment, Environment, Instance
from controlplane.inventory.models import Host, ModelArtifact, OptionList
from controlplane.release.models import Promotion
from controlplane.web.management.seeding import hardware, measuring, serving
from controlplane.web.management.seeding.sizes import ACTOR, HOST_PREFIX, Sizes

__all__ = ["ACTOR", "HOST_PREFIX", "Sizes", "existing", "refresh_statistics", "remove", "seed"]


def existing() -> dict[str, int]:
    """What somebody really keeps here: kind → number of rows that no seeding made."""
    counts = {
        "hosts": Host._base_manager.exclude(name__startswith=HOST_PREFIX).count(),
        "configs": Config.objects.exclude(created_by=ACTOR).count(),
        "instances": Instance.objects.exclude(created_by=ACTOR).count(),
        "runs": Run.objects.exclude(created_by=ACTOR).count(),
    }
    return {kind: count for kind, count in counts.items() if count}


@transaction.atomic
def seed(sizes: Sizes, *, now: datetime, number: int = 1) -> dict[str, int]:
    """Make the rows; returns kind → how many. `number` chooses another set of figures."""
    dice = random.Random(number)  # noqa: S311  # figures to look at, not secrets
    hosts = hardware.hosts(sizes, now, dice)
    hardware.accelerators(hosts, now, dice)
    engines = hardware.engines(hosts, dice)
    hardware.models(sizes, hosts, now, dice)
    versions = serving.versions(sizes, dice)
    deployments = serving.deployments(sizes, versions, engines)
    serving.preflights(deployments)
    instances = serving.instances(sizes, versions, engines, deployments, now, dice)
    attempts = serving.attempts(instances, now)
    serving.transitions(instances)
    serving.logs(list(attempts.values())[-sizes.deployments :])
    runs = measuring.runs(sizes, instances, attempts, now, dice)
    measuring.measurements(runs[-sizes.measured_runs :])
    measuring.promotions(deployments, versions, instances, runs, now)
    events = measuring.events(hosts, instances, runs)
    return {
        "hosts": len(hosts), "configs": sizes.configs, "versions": len(versions), "deployments": len(deployments),
        "instances": len(instances), "runs": len(runs), "events": events,
    }  # fmt: skip


@transaction.atomic
def remove() -> None:
    """Take away what `seed` made, in the order that references allow."""
    Promotion.objects.filter(created_by=ACTOR).delete()
    Run.objects.filter(created_by=ACTOR).delete()
    Instance.objects.filter(created_by=ACTOR).delete()
    Deployment.objects.filter(host__name__startswith=HOST_PREFIX).delete()
    Environment.objects.filter(name__startswith=HOST_PREFIX).delete()
    Config.objects.filter(created_by=ACTOR).delete()
    ModelArtifact.objects.filter(created_by=ACTOR).delete()
    Host._base_manager.filter(name__startswith=HOST_PREFIX).delete()
    OptionList.objects.filter(build__startswith=HOST_PREFIX).delete()
    Workload.objects.filter(name__startswith=HOST_PREFIX, is_built_in=False).delete()
    Event.objects.filter(actor=ACTOR).delete()


def refresh_statistics() -> None:
    """Tell the planner what is there now; autovacuum would, some minutes later."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
