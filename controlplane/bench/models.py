"""What was measured: workloads, runs, their metrics, series and requests."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Attempt, Instance
from controlplane.inventory.models import Host


class Workload(models.Model):
    """A load description, known by the hash of its content."""

    name = models.SlugField(max_length=80, unique=True)
    description = models.TextField(blank=True)
    spec = models.JSONField(help_text="Kind and parameters (bench/domain/workloads.py).")
    digest = models.CharField(max_length=64)
    is_built_in = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """One execution of a workload against one instance."""

    class State(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        FINISHED = "finished", _("Finished")
        INVALID = "invalid", _("Invalid")  # it ended, but a gate says its numbers must not be used
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="runs")
    workload_digest = models.CharField(max_length=64)
    seed = models.BigIntegerField()
    instance = models.ForeignKey(Instance, null=True, blank=True, on_delete=models.SET_NULL, related_name="runs")
    attempt = models.ForeignKey(Attempt, null=True, blank=True, on_delete=models.SET_NULL, related_name="runs")
    config_version = models.ForeignKey(ConfigVersion, null=True, on_delete=models.PROTECT, related_name="runs")
    config_digest = models.CharField(max_length=64)
    engine_version = models.CharField(max_length=60, blank=True)
    engine_build = models.CharField(max_length=128, blank=True)
    host = models.ForeignKey(Host, null=True, on_delete=models.PROTECT, related_name="runs")
    host_facts = models.JSONField(default=dict, blank=True)
    argv = models.JSONField(default=list, blank=True, help_text="The server's command line during the run.")
    job_id = models.CharField(
        max_length=80,
        unique=True,
        help_text="The host program's name for the load generator's process.",
    )
    spec = models.JSONField(
        default=dict, blank=True, help_text="What the load generator was given (bench/domain/spec.py); never a key."
    )
    command = models.JSONField(default=list, blank=True, help_text="The load generator's command line.")
    note = models.TextField(blank=True)

    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED, db_index=True)
    state_since = models.DateTimeField(auto_now_add=True)
    step_due_at = models.DateTimeField(null=True, blank=True, help_text="When its next step is planned; NULL: at once.")
    is_cancel_requested = models.BooleanField(default=False)
    reasons = models.JSONField(default=list, blank=True, help_text="Why it is invalid or failed: code, sentence.")
    progress = models.JSONField(default=dict, blank=True)
    planned = models.PositiveIntegerField(default=0)
    ok = models.PositiveIntegerField(null=True)
    failed = models.PositiveIntegerField(null=True)
    cancelled = models.PositiveIntegerField(null=True)
    errors = models.JSONField(default=list, blank=True, help_text="By class: count, sample body.")
    duration_s = models.FloatField(null=True)
    # The numbers that lists sort by, copied out of `metrics`.
    output_throughput = models.FloatField(null=True)
    ttft_ms_p50 = models.FloatField(null=True)
    ttft_ms_p99 = models.FloatField(null=True)
    tpot_ms_p50 = models.FloatField(null=True)
    tpot_ms_p99 = models.FloatField(null=True)
    e2el_ms_p50 = models.FloatField(null=True)
    e2el_ms_p99 = models.FloatField(null=True)
    gpu_utilisation_percent = models.FloatField(
        null=True, help_text="Mean over the run; NULL: no GPU, or not measured."
    )
    gpu_status = models.CharField(
        max_length=20, blank=True, help_text="ok, no_gpu, nvidia_smi_failed, off; empty: not known."
    )
    prompt_tokens = models.BigIntegerField(null=True, help_text="Of successful requests, as the server counted them.")
    output_tokens = models.BigIntegerField(null=True)
    is_instrument_limited = models.BooleanField(default=False)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(
        null=True, blank=True, help_text="When the load generator was started; NULL: not yet, even when it is running."
    )
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["workload", "-id"], name="run_workload"),
            models.Index(fields=["config_version", "-id"], name="run_version"),
            models.Index(fields=["instance", "-id"], name="run_instance"),
            models.Index(fields=["state", "-id"], name="run_state"),
        ]
        constraints = [
            # Two loads at once would each measure the other.
            models.UniqueConstraint(
                fields=["instance"], condition=models.Q(state="running"), name="one_running_run_per_instance"
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}"

    @property
    def is_over(self) -> bool:
        return self.state not in {self.State.QUEUED, self.State.RUNNING}


class Metric(models.Model):
    """One statistic of one run, under the id of its definition (docs/reference/metrics.md)."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metrics")
    definition = models.CharField(max_length=40)
    statistic = models.CharField(max_length=10)
    value = models.FloatField(null=True)
    n = models.PositiveIntegerField(null=True)
    unit = models.CharField(max_length=20)

    class Meta:
        ordering = ["run", "definition", "statistic"]
        constraints = [models.UniqueConstraint(fields=["run", "definition", "statistic"], name="one_row_per_statistic")]

    def __str__(self) -> str:
        return f"{self.definition} {self.statistic}"


class RunData(models.Model):
    """The bulk of a run, apart from the row that lists read."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="data")
    series = models.JSONField(default=dict, blank=True, help_text="One-second samples, columnar.")
    requests = models.BinaryField(
        null=True, help_text="Per-request columns, gzipped JSON; lengths and hashes, never text."
    )
    result = models.JSONField(default=dict, blank=True, help_text="The load generator's result file, as it wrote it.")

    def __str__(self) -> str:
        return f"data of run {self.run_id}"
