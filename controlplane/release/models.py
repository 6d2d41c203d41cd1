"""A config version becoming what an environment runs, and the evidence for it."""

from datetime import datetime

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from controlplane.bench.models import Run
from controlplane.configs.models import ConfigVersion
from controlplane.fleet.models import Deployment, Environment, Instance, Preflight
from controlplane.fleet.models import State as FleetState
from controlplane.inventory.models import Engine
from controlplane.release.domain.replacement import Party, Standing, Strategy


class Promotion(models.Model):
    """Who put which version into which environment, when, why, and how the replacement went."""

    class State(models.TextChoices):
        PENDING = "pending", _("Pending")
        ROLLING = "rolling", _("Rolling")  # the new instance is coming up or the old one going
        LIVE = "live", _("Live")
        REVERTED = "reverted", _("Reverted")  # the new one did not come up; the old one serves again
        FAILED = "failed", _("Failed")  # neither serves
        SUPERSEDED = "superseded", _("Superseded")  # served until another one did, or it was taken out of service

    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="promotions")
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="promotions")
    config_version = models.ForeignKey(ConfigVersion, on_delete=models.PROTECT, related_name="promotions")
    previous_version = models.ForeignKey(
        ConfigVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="promotions_away"
    )
    engine = models.ForeignKey(Engine, on_delete=models.PROTECT, related_name="promotions")
    gpu_uuids = models.JSONField(
        default=list, blank=True, help_text="The wished ones; []: free ones, else the old one's."
    )
    preflight = models.ForeignKey(
        Preflight, null=True, blank=True, on_delete=models.SET_NULL, related_name="promotions"
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
    is_taken_over = models.BooleanField(
        default=False, help_text="`instance` ran before the promotion; giving up leaves it running."
    )
    launched_at = models.DateTimeField(
        null=True, blank=True, help_text="When the new instance was asked for: it is asked for once."
    )
    is_abort_requested = models.BooleanField(default=False)
    is_reverting = models.BooleanField(default=False, help_text="The new one failed; the old version is started again.")
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING, db_index=True)
    state_since = models.DateTimeField(default=timezone.now)
    reason = models.TextField(blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["deployment", "-id"], name="promotion_deployment")]
        constraints = [
            models.UniqueConstraint(
                fields=["deployment"],
                condition=models.Q(state__in=["pending", "rolling"]),
                name="one_promotion_under_way_per_deployment",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.config_version} to {self.environment.name}"

    @property
    def went_live(self) -> bool:
        return self.state in WENT_LIVE

    def standing(self, now: datetime) -> Standing:
        """Where it stands, for the decision. Of a launched instance that was deleted since, only that it is gone."""
        is_gone = self.instance is None and self.launched_at is not None
        return Standing(
            strategy=Strategy(self.strategy),
            new=Party(FleetState.STOPPED) if is_gone else _party(self.instance, now),
            old=_party(self.replaces, now),
            is_new_borrowed=self.is_taken_over,
            is_aborting=self.is_abort_requested,
            is_reverting=self.is_reverting,
        )

    @property
    def has_changed_over(self) -> bool:
        """The new one serves in place of the old one: it is too late to give up."""
        return self.is_under_way and self.standing(timezone.now()).has_changed_over

    @property
    def moves_port(self) -> bool:
        """The new instance listens elsewhere while both run."""
        new, old = self.instance, self.replaces
        if new is None or old is None or not new.is_live or not old.is_live:
            return False
        return (new.host_id, new.port) != (old.host_id, old.port)

    @property
    def is_under_way(self) -> bool:
        return self.state in UNDER_WAY


UNDER_WAY = (Promotion.State.PENDING, Promotion.State.ROLLING)
WENT_LIVE = (Promotion.State.LIVE, Promotion.State.SUPERSEDED)


def _party(instance: Instance | None, now: datetime) -> Party | None:
    if instance is None:
        return None
    return Party(
        state=instance.state,
        is_wanted=instance.desired == Instance.Desired.RUNNING,
        ready_s=(now - instance.state_since).total_seconds() if instance.state == FleetState.READY else 0.0,
        is_silent=instance.is_host_silent,
    )
