from django.apps import AppConfig


class OpsConfig(AppConfig):
    name = "controlplane.ops"
    default_auto_field = "django.db.models.BigAutoField"
