from django.urls import path

from controlplane.release.views import environments, promoting, promotions

app_name = "release"
urlpatterns = [
    path("", environments.environment_list, name="environment_list"),
    path("<int:environment_id>/", environments.environment_detail, name="environment_detail"),
    path("promote/", promoting.promote, name="promote"),
    path("promotions/<int:promotion_id>/", promotions.promotion_detail, name="promotion_detail"),
    path("promotions/<int:promotion_id>/abort/", promotions.promotion_abort, name="promotion_abort"),
    path("deployments/<int:deployment_id>/rollback/", promotions.deployment_roll_back, name="roll_back"),
    path("deployments/<int:deployment_id>/stop/", promotions.deployment_stop, name="deployment_stop"),
]
