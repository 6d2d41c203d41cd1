"""The workloads that come with the product, as rows."""

from controlplane.bench.domain.workloads import BUILT_IN
from controlplane.bench.models import Workload


def ensure_built_in_workloads() -> None:
    """Bring the rows of the built-in workloads up to date; safe to repeat, called after every migration.

    Runs keep the digest they were measured under, so that a changed recipe never makes old and new runs look alike.
    """
    for built_in in BUILT_IN:
        Workload.objects.update_or_create(
            name=built_in.name,
            defaults={"spec": built_in.to_json(), "digest": built_in.content_hash, "is_built_in": True},
        )
