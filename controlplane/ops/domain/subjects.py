"""Which page shows the thing that an event is about."""

SUBJECT_PAGES = {
    "host": "inventory:host_detail",
    "modelartifact": "inventory:model_detail",
    "config": "configs:config_detail",
    "configversion": "configs:version_detail",
    "instance": "fleet:instance_detail",
    "run": "bench:run_detail",
    "workload": "bench:workload_detail",
    "promotion": "release:promotion_detail",
    "environment": "release:environment_detail",
}
"""Model name → the name of its page, which takes the primary key. A type that is missing, or whose page this
installation does not have, is shown as text."""
