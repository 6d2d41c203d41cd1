"""A config version becoming what an environment runs, and the evidence for it."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Deployment, Environment, Instance


class Promotion(models.Model):
    """Who put which version into which environment, when, why, and how the replacement went."""

    class State(models.TextChoices):
        PENDING = "pending", _("Pending")
        ROLLING = "rolling", _("Rolling")  # the new instance is coming up or the old one going
        LIVE = "live", _("Live")
        REVERTED = "reverted", _("Reverted")  # the new one did not come up; the old one serves again
        FAILED = "failed", _("Failed")  # neither serves
        SUPERSEDED = "superseded", _("Superseded")

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="promotions")
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="promotions")
    config_version = models.ForeignKey(ConfigVersion, on_delete=models.PROTECT, related_name="promotions")
    previous_version = models.ForeignKey(
        ConfigVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="promotions_away"
    )
    is_rollback = models.BooleanField(default=False)
    why = models.TextField(blank=True)
    runs = models.ManyToManyField(Run, blank=True, related_name="promotions", help_text="The evidence.")
    evidence_digest = models.CharField(
        max_length=64, blank=True, help_text="The config digest the evidence was measured on."
    )
    evidence_engine_build = models.CharField(max_length=128, blank=True)
    instance = models.ForeignKey(Instance, null=True, blank=True, on_delete=models.SET_NULL, related_name="promotions")
    replaces = models.ForeignKey(
        Instance, null=True, blank=True, on_delete=models.SET_NULL, related_name="replaced_by_promotions"
    )
    strategy = models.CharField(max_length=20, blank=True, help_text="start_first or stop_first, decided by room.")
    step = models.CharField(max_length=30, blank=True, help_text="Where the replacement stands.")
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING, db_index=True)
    state_since = models.DateTimeField(auto_now_add=True)
    reason = models.TextField(blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.config_version} to {self.environment.name}"
