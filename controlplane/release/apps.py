from django.apps import AppConfig


class ReleaseConfig(AppConfig):
    name = "controlplane.release"
    default_auto_field = "django.db.models.BigAutoField"
