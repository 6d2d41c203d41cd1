from django.urls import path

from controlplane.bench.views import charts, comparing, runs, workloads

app_name = "bench"
urlpatterns = [
    path("", runs.run_list, name="run_list"),
    path("start/", runs.run_start, name="run_start"),
    path("runs/<int:run_id>/", runs.run_detail, name="run_detail"),
    path("runs/<int:run_id>/cancel/", runs.run_cancel, name="run_cancel"),
    path("runs/<int:run_id>/note/", runs.run_note, name="run_note"),
    path("runs/<int:run_id>/remove/", runs.run_remove, name="run_remove"),
    path("runs/<int:run_id>/result.json", runs.run_result, name="run_result"),
    path("runs/<int:run_id>/requests.csv", runs.run_requests, name="run_requests"),
    path("runs/<int:run_id>/charts/<slug:name>/", charts.run_chart, name="run_chart"),
    path("workloads/", workloads.workload_list, name="workload_list"),
    path("workloads/<int:workload_id>/", workloads.workload_detail, name="workload_detail"),
    path("compare/", comparing.compare, name="compare"),
    path("compare/again/", comparing.measure_again, name="measure_again"),
    path("compare/charts/<slug:name>/", charts.compare_chart, name="compare_chart"),
]
