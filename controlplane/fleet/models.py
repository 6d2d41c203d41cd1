"""What should run and what does: environments, deployments, instances, attempts."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from controlplane.configs.models import ConfigVersion
from controlplane.inventory.models import Engine, Host


class Environment(models.Model):
    """Staging, production: a name that clients mean when they ask what is live."""

    name = models.SlugField(max_length=60, unique=True)
    rank = models.PositiveIntegerField(default=0, help_text="Order on pages; the highest is the one that matters most.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-rank", "name"]

    def __str__(self) -> str:
        return self.name


class Deployment(models.Model):
    """Desired state: an environment runs a config at one version, the promoted one, in one place."""

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="deployments")
    name = models.SlugField(max_length=100, help_text="The config's name: one deployment per config and environment.")
    config_version = models.ForeignKey(ConfigVersion, on_delete=models.PROTECT, related_name="deployments")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="deployments")
    engine = models.ForeignKey(Engine, on_delete=models.PROTECT, related_name="deployments")
    gpu_uuids = models.JSONField(default=list, blank=True)
    is_enabled = models.BooleanField(default=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["environment", "name"]
        constraints = [models.UniqueConstraint(fields=["environment", "name"], name="one_deployment_per_config")]

    def __str__(self) -> str:
        return f"{self.name} in {self.environment.name}"


class State(models.TextChoices):
    """States of an instance. `controlplane.fleet.domain.lifecycle` names which may follow which."""

    PENDING = "pending", _("Pending")
    STARTING = "starting", _("Starting")
    READY = "ready", _("Ready")
    DRAINING = "draining", _("Draining")
    STOPPED = "stopped", _("Stopped")
    FAILED = "failed", _("Failed")


LIVE_STATES = (State.PENDING, State.STARTING, State.READY, State.DRAINING)


class Instance(models.Model):
    """One engine that we launched (or adopted) on one host."""

    class Desired(models.TextChoices):
        RUNNING = "running", _("Running")
        STOPPED = "stopped", _("Stopped")

    name = models.SlugField(max_length=140, unique=True)
    config_version = models.ForeignKey(ConfigVersion, on_delete=models.PROTECT, related_name="instances")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="instances")
    engine = models.ForeignKey(Engine, on_delete=models.PROTECT, related_name="instances")
    deployment = models.ForeignKey(
        Deployment, null=True, blank=True, on_delete=models.SET_NULL, related_name="instances"
    )
    gpu_uuids = models.JSONField(default=list, blank=True)
    port = models.PositiveIntegerField()
    bind = models.CharField(max_length=60, default="127.0.0.1", help_text="The address the server listens on.")
    served_model_name = models.CharField(max_length=300, blank=True)
    sealed_key = models.BinaryField(help_text="The instance's own random vLLM key, sealed; never shown.")

    desired = models.CharField(max_length=10, choices=Desired.choices, default=Desired.RUNNING)
    state = models.CharField(max_length=10, choices=State.choices, default=State.PENDING, db_index=True)
    state_since = models.DateTimeField(auto_now_add=True)
    reason = models.TextField(blank=True, help_text="Why it is in this state, for people.")
    step_due_at = models.DateTimeField(null=True, blank=True, help_text="When its next step is planned; NULL: at once.")
    failed_starts = models.PositiveIntegerField(
        default=0, help_text="In a row, since it last served for a while or a person launched it."
    )
    unanswered_probes = models.PositiveIntegerField(default=0, help_text="Looks in a row that it did not answer.")
    override_reason = models.TextField(
        blank=True, help_text="Why it was launched although a check failed; empty: a failed check refuses."
    )
    observed_at = models.DateTimeField(null=True, blank=True, help_text="When its host last said something about it.")
    is_host_silent = models.BooleanField(
        default=False, help_text="Its host does not answer: the state is the last known one."
    )
    predicted_kv_tokens = models.BigIntegerField(null=True, blank=True)
    measured_kv_tokens = models.BigIntegerField(null=True, blank=True)
    max_concurrency = models.FloatField(null=True, blank=True)
    weights_bytes = models.BigIntegerField(null=True, blank=True)
    ready_s = models.FloatField(
        null=True, blank=True, help_text="From the launch call to the answered one-token request."
    )
    resident_bytes = models.BigIntegerField(null=True, blank=True)
    metrics = models.JSONField(
        default=dict, blank=True, help_text="running, waiting, kv_usage … of the last observation."
    )
    drift = models.JSONField(default=list, blank=True)
    smoke = models.JSONField(default=dict, blank=True, help_text="The last smoke request: prompt, answer, tokens, ms.")
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["host", "state"], name="instance_host_state"),
            models.Index(fields=["config_version", "-id"], name="instance_version"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_live(self) -> bool:
        return self.state in LIVE_STATES

    @property
    def base_url(self) -> str:
        """Where others reach the server: on the host's own address when it listens on all of them."""
        is_everywhere = self.bind in {"0.0.0.0", "::"}  # noqa: S104  # compared with, not bound to
        host = (self.host.address or "127.0.0.1") if is_everywhere else self.bind
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


class Preflight(models.Model):
    """What would happen if a version were launched there now: the checks, asked for by a person before launching."""

    class State(models.TextChoices):
        QUEUED = "queued", _("Queued")
        FINISHED = "finished", _("Finished")
        FAILED = "failed", _("Failed")  # the host could not be asked

    config_version = models.ForeignKey(ConfigVersion, on_delete=models.CASCADE, related_name="preflights")
    engine = models.ForeignKey(Engine, on_delete=models.CASCADE, related_name="preflights")
    gpu_uuids = models.JSONField(default=list, blank=True)
    port = models.PositiveIntegerField(null=True, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    checks = models.JSONField(
        default=list, blank=True, help_text="code, label, outcome, sentence, arithmetic, remedy, fixes."
    )
    argv = models.JSONField(default=list, blank=True)
    predicted_kv_tokens = models.BigIntegerField(null=True, blank=True)
    error = models.TextField(blank=True)
    error_remedy = models.TextField(blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"preflight {self.pk}"


class Attempt(models.Model):
    """One try at launching an instance, with its own process, log and outcome."""

    class Outcome(models.TextChoices):
        RUNNING = "running", _("Running")
        STOPPED = "stopped", _("Stopped")  # ended because we asked
        FAILED = "failed", _("Failed")  # never served
        CRASHED = "crashed", _("Crashed")  # served, then ended unasked
        REFUSED = "refused", _("Refused")  # a check or the host said no; nothing was started
        LOST = "lost", _("Lost")  # gone, and nobody saw how: the host restarted

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    launch_id = models.CharField(
        max_length=80, unique=True, help_text="The host program's name for it, and the nonce's."
    )
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.RUNNING)
    argv = models.JSONField(default=list, help_text="The command line; it never holds a secret.")
    injected = models.JSONField(default=list, blank=True, help_text="The part of argv that we added.")
    environment = models.JSONField(default=dict, blank=True, help_text="Without secrets.")
    preflight = models.JSONField(
        default=list, blank=True, help_text="Checks: code, label, outcome, sentence, arithmetic, remedy, fixes."
    )
    process = models.JSONField(default=dict, blank=True, help_text="boot_id, pid, pgid, start_time, keeper as started.")
    reader_state = models.JSONField(default=dict, blank=True, help_text="Where the log reader stands.")
    startup = models.JSONField(default=dict, blank=True, help_text="What the log said: steps, weights, KV cache.")
    log_bytes = models.BigIntegerField(default=0, help_text="How much of the log has been copied.")
    started_at = models.DateTimeField(auto_now_add=True)
    launched_at = models.DateTimeField(null=True, blank=True, help_text="When the process was started.")
    ready_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    exit_signal = models.CharField(max_length=20, blank=True)
    given_up_after_s = models.FloatField(
        null=True, blank=True, help_text="Its processes are killed because it did not answer for so long."
    )
    is_kill_sent = models.BooleanField(default=False)
    stop_report = models.JSONField(default=dict, blank=True, help_text="What the last stop found left, and killed.")
    leftovers = models.JSONField(
        default=list, blank=True, help_text="Processes that outlived the main one: pid, command, what became of them."
    )
    failure_code = models.CharField(max_length=60, blank=True)
    failure = models.TextField(blank=True, help_text="The plain sentence.")
    failure_line = models.TextField(blank=True, help_text="The earliest telling line of the log.")
    failure_line_number = models.PositiveIntegerField(null=True, blank=True)
    remedy = models.TextField(blank=True)
    fixes = models.JSONField(default=list, blank=True, help_text="Changes to the config: label, section, key, value.")

    class Meta:
        ordering = ["instance", "-number"]
        constraints = [models.UniqueConstraint(fields=["instance", "number"], name="one_row_per_attempt")]

    def __str__(self) -> str:
        return f"{self.instance.name} attempt {self.number}"


class LogChunk(models.Model):
    """A piece of an attempt's log, whole lines, keys taken out; `offset` is where it began on the host, in bytes."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="log_chunks")
    offset = models.BigIntegerField()
    text = models.TextField()
    first_line_number = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["attempt", "offset"]
        constraints = [models.UniqueConstraint(fields=["attempt", "offset"], name="one_row_per_chunk")]

    def __str__(self) -> str:
        return f"{self.attempt_id}@{self.offset}"


class Transition(models.Model):
    """An instance went from one state to another."""

    instance = models.ForeignKey(Instance, on_delete=models.CASCADE, related_name="transitions")
    attempt = models.ForeignKey(Attempt, null=True, blank=True, on_delete=models.SET_NULL, related_name="transitions")
    before = models.CharField(max_length=10, choices=State.choices)
    after = models.CharField(max_length=10, choices=State.choices)
    reason = models.TextField(blank=True)
    actor = models.CharField(max_length=200)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["instance", "id"]

    def __str__(self) -> str:
        return f"{self.before} → {self.after}"
