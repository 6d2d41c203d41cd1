from django.apps import AppConfig


class ConfigsConfig(AppConfig):
    name = "controlplane.configs"
    default_auto_field = "django.db.models.BigAutoField"
