"""The Celery application: an alarm clock and a pool of hands; Postgres holds the truth. Configured in settings."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("controlplane")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [f"controlplane.{name}" for name in ("inventory", "configs", "fleet", "bench", "release", "ops")]
)
