"""Bringing what runs to what is wanted, one step at a time. Every step can be repeated; none trusts an earlier one.

`advance` moves one instance, `observe_host` looks at all that serves on a host. Both look, ask `domain.lifecycle` what
to do, and do it; tasks and the tick call them, each holds a lease, and no transaction is open while a host is asked.
docs/internals/fleet.md tells the whole story.
"""

from controlplane.fleet.reconcile.advancing import advance
from controlplane.fleet.reconcile.clearing import clear_away
from controlplane.fleet.reconcile.observing import hosts_to_observe, observe_host, send_late_steps
from controlplane.fleet.reconcile.preflight import fill_preflight
from controlplane.fleet.reconcile.smoke import ask_smoke

__all__ = [
    "advance",
    "ask_smoke",
    "clear_away",
    "fill_preflight",
    "hosts_to_observe",
    "observe_host",
    "send_late_steps",
]
