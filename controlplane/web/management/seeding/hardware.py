"""Invented hosts with their GPUs, engines and models."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.configs.domain.catalogue import catalogue
from controlplane.inventory.models import Accelerator, Engine, Host, ModelArtifact, ModelCopy, OptionList
from controlplane.web.management.seeding.sizes import (
    ACTOR,
    ENGINE_VERSIONS,
    GIB,
    GPUS_PER_HOST,
    HOST_PREFIX,
    MODELS,
    Sizes,
    inserted,
)


def hosts(sizes: Sizes, now: datetime, dice: random.Random) -> list[Host]:
    states = [Host.State.REACHABLE] * 48 + [Host.State.UNREACHABLE, Host.State.NEW]
    rows = (
        Host(
            name=f"{HOST_PREFIX}{number:04}",
            transport=Host.Transport.SSH,
            address=f"10.0.{number // 250}.{number % 250 + 1}",
            username="vllm",
            state=states[number % len(states)],
            state_since=now - timedelta(minutes=dice.randrange(1, 20_000)),
            facts=_facts(number, dice),
            probed_at=now - timedelta(seconds=dice.randrange(60)),
            last_seen_at=now - timedelta(seconds=dice.randrange(60)),
        )
        for number in range(sizes.hosts)
    )
    return inserted(Host, rows)


def _facts(number: int, dice: random.Random) -> dict[str, Any]:
    total = 512 * GIB
    return {
        "hostname": f"{HOST_PREFIX}{number:04}", "os_name": "Debian GNU/Linux 12", "kernel": "6.1.0",
        "architecture": "x86_64", "user": "vllm", "python_version": "3.11.9", "python_executable": "/usr/bin/python3",
        "cpu_model": "EPYC 9554",
        "cpu_count": 128, "memory_total_bytes": total, "memory_available_bytes": dice.randrange(total),
        "disks": [{"path": "/srv", "total_bytes": 4096 * GIB, "free_bytes": dice.randrange(4096 * GIB)}],
        "gpu": {"status": "ok", "message": "", "remedy": "", "pci_cards": GPUS_PER_HOST},
    }  # fmt: skip


def accelerators(hosts: Sequence[Host], now: datetime, dice: random.Random) -> None:
    rows = (
        Accelerator(
            host=host,
            uuid=f"GPU-{host.name}-{index}",
            index=index,
            name="NVIDIA H100 80GB HBM3",
            memory_total_bytes=80 * GIB,
            memory_used_bytes=dice.randrange(80 * GIB),
            utilisation_percent=float(dice.randrange(101)),
            driver="550.54",
            compute_capability="9.0",
            processes=[{"pid": dice.randrange(2, 99_999), "nonce": "launch" if dice.random() < 0.9 else None}],
            seen_at=now,
        )
        for host in hosts
        for index in range(GPUS_PER_HOST)
    )
    inserted(Accelerator, rows)


def engines(hosts: Sequence[Host], dice: random.Random) -> list[Engine]:
    known = {version: _option_list(version) for version in ENGINE_VERSIONS}
    inserted(OptionList, iter(known.values()))
    versions = [dice.choice(ENGINE_VERSIONS) for _host in hosts]
    rows = (
        Engine(
            host=host,
            executable="/opt/vllm/bin/vllm",
            version=version,
            build=known[version].build,
            option_list=known[version],
        )
        for host, version in zip(hosts, versions, strict=True)
    )
    return inserted(Engine, rows)


def _option_list(version: str) -> OptionList:
    """The options of a release as one of its builds would list them."""
    records = [
        {
            "dest": flag.dest, "flags": list(flag.flags), "kind": flag.kind, "nargs": flag.nargs,
            "choices": list(flag.choices or ()), "default": flag.default, "help": flag.help_line, "group": "seed",
        }
        for flag in catalogue().flags(version).values()
    ]  # fmt: skip
    return OptionList(
        build=f"{HOST_PREFIX}{version}",
        version=version,
        args={"vllm_version": version, "count": len(records), "args": records},
        option_count=len(records),
    )


def models(sizes: Sizes, hosts: Sequence[Host], now: datetime, dice: random.Random) -> None:
    rows = (
        ModelArtifact(
            name=f"{HOST_PREFIX}{MODELS[number % len(MODELS)]}-{number}",
            source=ModelArtifact.Source.PATH,
            location=f"/srv/models/{HOST_PREFIX}{number}",
            created_by=ACTOR,
        )
        for number in range(sizes.models)
    )
    artifacts = inserted(ModelArtifact, rows)
    facts = {"architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 64, "dtype": "bfloat16", "has_tokenizer": True}
    copies = (
        ModelCopy(
            artifact=artifact,
            host=host,
            path=artifact.location,
            facts={**facts, "total_bytes": dice.randrange(8 * GIB, 70 * GIB)},
            inspected_at=now,
        )
        for artifact in artifacts
        for host in dice.sample(hosts, min(3, len(hosts)))
    )
    inserted(ModelCopy, copies)
