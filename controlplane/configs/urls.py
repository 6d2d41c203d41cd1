from django.urls import path

from controlplane.configs.views import configs, importing, releases, versions

app_name = "configs"
urlpatterns = [
    path("", configs.config_list, name="config_list"),
    path("import/", importing.config_import, name="config_import"),
    path("what-breaks/", releases.what_breaks, name="what_breaks"),
    path("flags/", releases.flag_list, name="flag_list"),
    path("versions/<int:version_id>/", versions.version_detail, name="version_detail"),
    path("versions/<int:version_id>/raw/", versions.version_raw, name="version_raw"),
    path("versions/<int:version_id>/export/<slug:format>/", versions.version_export, name="version_export"),
    path("versions/<int:version_id>/diff/", versions.version_diff, name="version_diff"),
    path("versions/<int:version_id>/change/", versions.version_change, name="version_change"),
    path("versions/<int:version_id>/fix/", versions.version_fix, name="version_fix"),
    # By name, or by number as links from elsewhere have it; what stands above is reserved (domain/naming.py).
    path("<slug:config>/", configs.config_detail, name="config_detail"),
    path("<slug:config>/edit/", configs.config_edit, name="config_edit"),
    path("<slug:config>/archive/", configs.config_archive, name="config_archive"),
]
