"""Who holds the memory of a GPU: our instances, or somebody else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Holder:
    """A process on a GPU. `instance` is the name of the instance that it belongs to. None with `is_launched`: another
    control plane launched it, or it outlived its instance. None without: nobody's launch mark is on it."""

    pid: int
    user: str | None
    command: str
    memory_bytes: int | None
    instance: str | None
    is_launched: bool

    @property
    def is_foreign(self) -> bool:
        return not self.is_launched


def holders(processes: Iterable[Mapping[str, Any]], *, instance_of: Mapping[str, str]) -> list[Holder]:
    """`processes` as the probe answered them for one GPU; `instance_of` names our live instances by launch nonce."""
    return [
        Holder(
            pid=process["pid"],
            user=process.get("user"),
            command=" ".join(process.get("command") or []),
            memory_bytes=process.get("memory_bytes"),
            instance=instance_of.get(process.get("nonce") or ""),
            is_launched=bool(process.get("nonce")),
        )
        for process in processes
    ]
