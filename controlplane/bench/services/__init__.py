"""What can be done to runs and workloads. Each function is one transaction and one event."""

from controlplane.bench.services.requesting import measure_again, request_run
from controlplane.bench.services.settling import annotate_run, cancel_run, remove_run
from controlplane.bench.services.workloads import ensure_built_in_workloads

__all__ = ["annotate_run", "cancel_run", "ensure_built_in_workloads", "measure_again", "remove_run", "request_run"]
