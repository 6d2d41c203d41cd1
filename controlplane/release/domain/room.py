"""Where the new instance goes, and whether both fit: from what holds the GPUs and what the preflight found."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from controlplane.release.domain.replacement import Strategy

_HELD_BY_ANY = frozenset({"port"})
_HELD_ON_GPU = _HELD_BY_ANY | {"free_memory"}
_HELD_ON_CPU = _HELD_BY_ANY | {"memory"}
"""Checks of the preflight that fail while the old instance runs and pass once it is gone. On a GPU the check `memory`
asks whether the model fits an empty card, on a CPU whether it fits what is free now."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of the new one's host by UUID: all in their order, those of the old instance, those of others."""

    on_host: Sequence[str]
    of_old: Collection[str] = ()
    of_others: Collection[str] = ()

    def for_new(self, needed: int, wished: Sequence[str] = ()) -> list[str]:
        """The wished ones. Without a wish: free ones where there are enough, else those of the old instance and free
        ones, never those of others. Fewer than `needed` when there are no more; preflight then says so."""
        if wished:
            return list(wished)
        free = [uuid for uuid in self.on_host if uuid not in self.of_old and uuid not in self.of_others]
        if len(free) >= needed:
            return free[:needed]
        old = [uuid for uuid in self.on_host if uuid in self.of_old and uuid not in self.of_others]
        chosen = {*[*old, *free][:needed]}
        return [uuid for uuid in self.on_host if uuid in chosen]

    def are_freed_by_old(self, chosen: Collection[str]) -> bool:
        """Whether stopping the old instance frees the chosen ones: it holds some, and nobody else does."""
        return any(uuid in self.of_old for uuid in chosen) and not any(uuid in self.of_others for uuid in chosen)


def strategy_of(failed_checks: Collection[str], *, is_cpu: bool, is_freed_by_old: bool) -> Strategy:
    """Start first when every check passes beside the old instance; stop first when only what the old one holds is
    missing; undecided when stopping it would not help."""
    if not failed_checks:
        return Strategy.START_FIRST
    held = _HELD_ON_CPU if is_cpu else _HELD_ON_GPU
    return Strategy.STOP_FIRST if is_freed_by_old and set(failed_checks) <= held else Strategy.UNDECIDED
