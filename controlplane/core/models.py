"""Rows every app needs: events, secrets, leases."""

from typing import Any

from django.db import models


class Event(models.Model):
    """Something that happened, `noun.past_participle`. Append only.

    The subject is named by type, id and label, so that the event outlives it.
    """

    at = models.DateTimeField(auto_now_add=True)
    name = models.CharField(max_length=80)
    actor = models.CharField(max_length=200)
    subject_type = models.CharField(max_length=40, blank=True)
    subject_id = models.CharField(max_length=40, blank=True)
    subject_label = models.CharField(max_length=200, blank=True)
    sentence = models.TextField(blank=True)
    data = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["subject_type", "subject_id", "-id"], name="event_subject"),
            models.Index(fields=["name", "-id"], name="event_name"),
            models.Index(fields=["actor", "-id"], name="event_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.subject_label}".strip()


class Secret(models.Model):
    """A named secret, encrypted; everything else refers to it as `secret:<name>`."""

    class Kind(models.TextChoices):
        API_KEY = "api_key", "API key"
        SSH_KEY = "ssh_key", "SSH private key"

    name = models.SlugField(max_length=120, unique=True)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    sealed = models.BinaryField()
    hint = models.CharField(
        max_length=200, blank=True, help_text="What helps to recognise it: a fingerprint, never a part of it."
    )
    created_by = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.reference

    @property
    def reference(self) -> str:
        return f"secret:{self.name}"


class Lease(models.Model):
    """The right to act on one thing for a while. Held by the worker named in `holder` until `expires_at`."""

    name = models.CharField(max_length=120, primary_key=True)
    holder = models.CharField(max_length=120)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Lease {self.name} {self.holder} until {self.expires_at}>"


def as_json(value: Any) -> Any:
    """`value` made of what JSON knows: dataclasses and tuples would not survive a JSONField unchanged."""
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
