from django.apps import AppConfig


class InventoryConfig(AppConfig):
    name = "controlplane.inventory"
    default_auto_field = "django.db.models.BigAutoField"
