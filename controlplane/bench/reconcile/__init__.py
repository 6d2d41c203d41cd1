"""Carrying out runs, one step at a time. Every step can be repeated; none trusts an earlier one.

`advance` moves one run: it looks at the host, asks `domain.following` what that means, and does it. Tasks and the tick
call it; it holds a lease, and no transaction is open while a host is asked.
"""

from controlplane.bench.reconcile.advancing import advance, send_late_steps

__all__ = ["advance", "send_late_steps"]
