from django.urls import path

from controlplane.fleet.views import attempts, fixes, instances, launching, lists

app_name = "fleet"
urlpatterns = [
    path("", lists.instance_list, name="instance_list"),
    path("launch/", launching.launch, name="launch"),
    path("launch/fix/<int:version_id>/", fixes.version_fix, name="version_fix"),
    path("preflights/<int:preflight_id>/", launching.preflight_detail, name="preflight_detail"),
    path("preflights/<int:preflight_id>/fix/", fixes.preflight_fix, name="preflight_fix"),
    path("attempts/<int:attempt_id>/", attempts.attempt_detail, name="attempt_detail"),
    path("attempts/<int:attempt_id>/log/", attempts.attempt_log, name="attempt_log"),
    path("attempts/<int:attempt_id>/log.txt", attempts.attempt_log_download, name="attempt_log_download"),
    path("attempts/<int:attempt_id>/fix/", fixes.attempt_fix, name="attempt_fix"),
    path("<int:instance_id>/", instances.instance_detail, name="instance_detail"),
    path("<int:instance_id>/stop/", instances.instance_stop, name="instance_stop"),
    path("<int:instance_id>/relaunch/", instances.instance_relaunch, name="instance_relaunch"),
    path("<int:instance_id>/smoke/", instances.instance_smoke, name="instance_smoke"),
    path("<int:instance_id>/remove/", instances.instance_remove, name="instance_remove"),
    path("<int:instance_id>/export/<slug:format>/", instances.instance_export, name="instance_export"),
]
