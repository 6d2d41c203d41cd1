"""People and the tokens that act for them."""

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.translation import gettext_lazy as _


class Role(models.TextChoices):
    VIEWER = "viewer", _("Viewer")
    OPERATOR = "operator", _("Operator")
    ADMIN = "admin", _("Administrator")


class User(AbstractUser):
    """A person. Viewers read, operators act on configs, instances, runs and promotions, administrators also on hosts,
    people and secrets."""

    role = models.CharField(max_length=20, choices=Role.choices, default=Role.VIEWER)
    language = models.CharField(max_length=10, blank=True, help_text="Of the pages; empty: what the browser asks for.")
    must_change_password = models.BooleanField(
        default=False, help_text="The password was shown to somebody else: it opens only the page that changes it."
    )

    @property
    def may_operate(self) -> bool:
        return self.is_active and self.role in {Role.OPERATOR, Role.ADMIN}

    @property
    def may_administer(self) -> bool:
        return self.is_active and self.role == Role.ADMIN


class ApiToken(models.Model):
    """A credential for the REST API: shown once, stored as a hash; it can do what its owner can, or only read."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    is_read_only = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class LoginTries(models.Model):
    """Password tries that have not been followed by a right one, counted per name and address.

    `key` is a hash: people type passwords into the name field, and those must not be kept.
    """

    key = models.CharField(max_length=64, primary_key=True)
    tries = models.PositiveIntegerField(default=0)
    tried_at = models.DateTimeField(db_index=True)
    blocked_until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.tries} tries"
