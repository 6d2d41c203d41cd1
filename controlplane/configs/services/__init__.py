"""What can be done to configs. Other apps import from here, not from the modules below."""

from controlplane.configs.services.keeping import archive_config, describe_config, rename_config, unarchive_config
from controlplane.configs.services.versions import (
    InvalidConfig,
    change_version,
    changed_document,
    fix_version,
    import_config,
)

__all__ = [
    "InvalidConfig",
    "archive_config",
    "change_version",
    "changed_document",
    "describe_config",
    "fix_version",
    "import_config",
    "rename_config",
    "unarchive_config",
]
