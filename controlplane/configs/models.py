"""Configs and their immutable versions."""

from typing import Any

from django.db import models


class Config(models.Model):
    """A named way to serve a model."""

    name = models.SlugField(max_length=100, unique=True)
    description = models.TextField(blank=True)
    created_by = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ConfigVersion(models.Model):
    """The content of a config at one time: numbered, never changed."""

    config = models.ForeignKey(Config, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    toml = models.BinaryField(
        help_text="The file as it was imported, byte for byte, save that a key is a secret reference."
    )
    content = models.JSONField(help_text="Section → key → value, unset keys removed.")
    digest = models.CharField(max_length=64, db_index=True, help_text="sha256 of the canonical content.")
    file_digest = models.CharField(max_length=64, help_text="sha256 of `toml`.")
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children")
    note = models.TextField(blank=True)
    author = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["config", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["config", "number"], name="one_row_per_version"),
            models.UniqueConstraint(fields=["config", "file_digest"], name="identical_file_makes_no_new_version"),
        ]

    def __str__(self) -> str:
        return f"{self.config.name} v{self.number}"

    def value(self, section: str, key: str, default: Any = None) -> Any:
        return self.content.get(section, {}).get(key, default)
