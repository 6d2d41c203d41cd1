"""What can be done to hosts, engines and models. Other apps import from here, not from the modules below."""

from controlplane.inventory.services.artifacts import (
    add_model,
    ensure_copy,
    inspect_again,
    inspect_copy_now,
    inspect_model_copy,
    look_on_host,
    remove_model,
)
from controlplane.inventory.services.host_keys import (
    KeyNotOffered,
    fetch_host_key,
    pin_host_key,
    pin_known_key,
    replace_host_key,
)
from controlplane.inventory.services.hosts import (
    SshAccess,
    add_host,
    change_host,
    host_named,
    make_local,
    remove_host,
    rescan,
    set_maintenance,
    update_host,
)
from controlplane.inventory.services.probing import capture_options, hosts_due, probe_due, probe_host
from controlplane.inventory.services.reach import HostKeyNotPinned, call_host, endpoint_of, note_answer, note_failure
from controlplane.inventory.services.ssh_keys import is_same_key

__all__ = [
    "HostKeyNotPinned",
    "KeyNotOffered",
    "SshAccess",
    "add_host",
    "add_model",
    "call_host",
    "capture_options",
    "change_host",
    "endpoint_of",
    "ensure_copy",
    "fetch_host_key",
    "host_named",
    "hosts_due",
    "inspect_again",
    "inspect_copy_now",
    "inspect_model_copy",
    "is_same_key",
    "look_on_host",
    "make_local",
    "note_answer",
    "note_failure",
    "pin_host_key",
    "pin_known_key",
    "probe_due",
    "probe_host",
    "remove_host",
    "remove_model",
    "replace_host_key",
    "rescan",
    "set_maintenance",
    "update_host",
]
