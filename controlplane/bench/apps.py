from django.apps import AppConfig


class BenchConfig(AppConfig):
    name = "controlplane.bench"
    default_auto_field = "django.db.models.BigAutoField"
