from django.urls import path

from controlplane.inventory.views import hosts, models

app_name = "inventory"
urlpatterns = [
    path("hosts/", hosts.host_list, name="host_list"),
    path("hosts/add/", hosts.host_add, name="host_add"),
    path("hosts/engines/<int:engine_id>/", hosts.engine_detail, name="engine_detail"),
    path("hosts/<int:host_id>/", hosts.host_detail, name="host_detail"),
    path("hosts/<int:host_id>/edit/", hosts.host_edit, name="host_edit"),
    path("hosts/<int:host_id>/probe/", hosts.host_probe, name="host_probe"),
    path("hosts/<int:host_id>/pin/", hosts.host_pin, name="host_pin"),
    path("hosts/<int:host_id>/maintenance/", hosts.host_maintenance, name="host_maintenance"),
    path("hosts/<int:host_id>/remove/", hosts.host_remove, name="host_remove"),
    path("models/", models.model_list, name="model_list"),
    path("models/add/", models.model_add, name="model_add"),
    path("models/<int:model_id>/", models.model_detail, name="model_detail"),
    path("models/<int:model_id>/inspect/", models.model_inspect, name="model_inspect"),
    path("models/<int:model_id>/remove/", models.model_remove, name="model_remove"),
]
