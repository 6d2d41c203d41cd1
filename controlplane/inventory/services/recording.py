"""Writing down what a probe saw. A listing that failed never reads as “nothing there”."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from controlplane.core import events
from controlplane.inventory.domain.builds import device_of
from controlplane.inventory.models import Accelerator, Engine, Host
from controlplane.protocol import engines as protocol
from controlplane.protocol.engines import EngineList
from controlplane.protocol.machine import Gpu, GpuReport, Machine
from controlplane.protocol.shapes import to_wire

SEEN_STATUSES = ("ok", "none")
"""Answers that really list the GPUs. With missing tools or a broken driver nobody can see them: rows stay."""


def record_machine(host: Host, machine: Machine, now: datetime) -> None:
    """Facts and GPUs of one probe, in one transaction; GPUs that came or went are an event."""
    facts = to_wire(machine)
    facts["gpu"] = {name: facts["gpu"][name] for name in ("status", "message", "remedy", "pci_cards")}
    with transaction.atomic():
        is_first = host.probed_at is None
        Host.every.filter(pk=host.pk).update(facts=facts, boot_id=machine.boot_id, probed_at=now)
        if host.boot_id and host.boot_id != machine.boot_id:
            events.record("host.rebooted", actor=events.SYSTEM, subject=host, boot_id=machine.boot_id)
        if machine.gpu.status in SEEN_STATUSES:
            _record_gpus(host, machine.gpu, now, is_first=is_first)
    host.facts, host.boot_id, host.probed_at = facts, machine.boot_id, now


def record_engines(host: Host, found: EngineList, now: datetime) -> list[Engine]:
    """The vLLM installations of one search. What is gone keeps its row (`missing_since`): instances refer to it."""
    known = {engine.executable: engine for engine in Engine.objects.filter(host=host)}
    with transaction.atomic():
        rows = [_engine(host, seen, known.get(seen.executable)) for seen in found.engines]
        for row in rows:
            before = known.get(row.executable)
            row.save(force_update=before is not None)
            if before is None or before.missing_since or before.build != row.build:
                name = "engine.changed" if before else "engine.found"
                _record_engine_event(name, host, row)
        gone = Engine.objects.filter(host=host, missing_since=None).exclude(pk__in=[row.pk for row in rows])
        for engine in gone:
            _record_engine_event("engine.lost", host, engine)
        gone.update(missing_since=now)
    return rows


def _record_engine_event(name: str, host: Host, engine: Engine) -> None:
    """About the host, whose page shows it."""
    sentence = f"vLLM {engine.version or '?'}, {engine.executable}"
    events.record(name, actor=events.SYSTEM, subject=host, sentence=sentence, engine_id=engine.pk)


def _engine(host: Host, seen: protocol.Engine, known: Engine | None) -> Engine:
    row = Engine(host=host, executable=seen.executable)
    if known is not None:
        row.pk, row.found_at, row.build = known.pk, known.found_at, known.build
        row.option_list_id, row.option_list_error = known.option_list_id, known.option_list_error
    if row.build != (seen.digest or ""):  # another build has other options
        row.build, row.option_list, row.option_list_error = seen.digest or "", None, ""
    row.version, row.distribution = seen.version or "", seen.distribution or ""
    row.device = device_of(distribution=seen.distribution, version=seen.version, torch_version=seen.torch_version)
    row.error = seen.error or ""
    return row


def _record_gpus(host: Host, report: GpuReport, now: datetime, *, is_first: bool) -> None:
    known = {gpu.uuid: gpu for gpu in Accelerator.objects.filter(host=host)}
    present = {gpu.uuid for gpu in report.gpus}
    rows = [_accelerator(host, gpu, report, now) for gpu in report.gpus]
    written = [field for field in _written() if field not in {"host", "uuid"}]
    Accelerator.objects.bulk_create(rows, update_conflicts=True, unique_fields=["host", "uuid"], update_fields=written)
    Accelerator.objects.filter(host=host, missing_since=None).exclude(uuid__in=present).update(missing_since=now)
    came = [f"{gpu.index}: {gpu.name}" for gpu in report.gpus if _is_gone(known.get(gpu.uuid))]
    went = [f"{gpu.index}: {gpu.name}" for gpu in known.values() if gpu.uuid not in present and not _is_gone(gpu)]
    if went or (came and not is_first):
        sentence = ", ".join([f"+ {gpu}" for gpu in came] + [f"− {gpu}" for gpu in went])
        events.record("host.gpus_changed", actor=events.SYSTEM, subject=host, sentence=sentence, came=came, went=went)


def _is_gone(gpu: Accelerator | None) -> bool:
    return gpu is None or gpu.missing_since is not None


def _accelerator(host: Host, gpu: Gpu, report: GpuReport, now: datetime) -> Accelerator:
    return Accelerator(
        host=host,
        uuid=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        memory_total_bytes=gpu.memory_total_bytes,
        memory_used_bytes=gpu.memory_used_bytes,
        utilisation_percent=gpu.utilization_percent,
        driver=gpu.driver_version or "",
        compute_capability=gpu.compute_capability or "",
        processes=[to_wire(process) for process in report.processes if process.gpu_uuid == gpu.uuid],
        seen_at=now,
        missing_since=None,
    )


def _written() -> Iterable[str]:
    return (field.name for field in Accelerator._meta.fields if not field.primary_key)
