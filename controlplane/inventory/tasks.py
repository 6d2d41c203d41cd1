"""Work for the worker; each carries ids and may run twice."""

from typing import Any

from celery import shared_task

from controlplane.inventory import services


@shared_task(name="inventory.probe")
def probe(*, host_id: int, **_: Any) -> None:
    """Look at one host."""
    services.probe_host(host_id)


@shared_task(name="inventory.probe_due")
def probe_due(**_: Any) -> None:
    """The tick: whatever a lost message left behind is found here."""
    services.probe_due()


@shared_task(name="inventory.fetch_host_key")
def fetch_host_key(*, host_id: int, **_: Any) -> None:
    """Ask a host for its key, for a person to compare."""
    services.fetch_host_key(host_id)


@shared_task(name="inventory.inspect_model_copy")
def inspect_model_copy(*, copy_id: int, **_: Any) -> None:
    """Read one copy's files."""
    services.inspect_model_copy(copy_id)
