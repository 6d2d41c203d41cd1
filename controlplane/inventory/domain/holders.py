"""Who holds the memory of a GPU: our instances, or somebody else."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Holder:
    """A process on a GPU. `instance` is the name of the instance it belongs to; None with `is_launched`: some control
    plane launched it, but none of the instances placed on this GPU; None without: foreign."""

    pid: int
    user: str | None
    command: str
    memory_bytes: int | None
    instance: str | None
    is_launched: bool

    @property
    def is_foreign(self) -> bool:
        return not self.is_launched


def holders(processes: Iterable[Mapping[str, Any]], *, instances_here: Sequence[str]) -> list[Holder]:
    """`processes` as the probe answered them for one GPU; `instances_here` names the live instances placed on it.

    The launch mark tells our processes from foreign ones. Which of several instances on one GPU it is, the mark alone
    does not tell: then no name is given.
    """
    only = instances_here[0] if len(instances_here) == 1 else None
    return [
        Holder(
            pid=process["pid"],
            user=process.get("user"),
            command=" ".join(process.get("command") or []),
            memory_bytes=process.get("memory_bytes"),
            instance=only if process.get("nonce") else None,
            is_launched=bool(process.get("nonce")),
        )
        for process in processes
    ]
