"""Where a model's weights are: a path on hosts, or a repository id with a revision."""

import re
from pathlib import PurePosixPath

from controlplane.inventory.domain.addresses import Fault

PATH, REPOSITORY = "path", "repository"
MAX_NAME = 190
# As the Hugging Face hub writes them: optional owner, then name; no "--", no "..".
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?"
_REPOSITORY = re.compile(rf"^(?:{_PART}/)?{_PART}$")
_COMMIT = re.compile(r"^[0-9a-f]{40}$")
_HUB_CACHE = "~/.cache/huggingface/hub"
_REVISION = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,119}$")


def faults_of_location(*, source: str, location: str, revision: str) -> list[Fault]:
    """Everything that cannot be used, not only the first fault."""
    if source == PATH:
        faults = [] if is_path(location) else [Fault("location", *_PATH_FAULT)]
        if revision:
            faults.append(Fault("revision", "A path has no revision.", "Leave it empty; it belongs to a repository."))
        return faults
    faults = []
    if not _REPOSITORY.match(location) or "--" in location or ".." in location:
        faults.append(
            Fault("location", "This is not a repository id.", "Write owner/name, as in Qwen/Qwen2.5-32B-Instruct-AWQ.")
        )
    if revision and not _REVISION.match(revision):
        faults.append(Fault("revision", "This is not a revision.", "Write a branch, a tag or a commit."))
    return faults


_PATH_FAULT = ("This is not an absolute path.", "Write the model's directory from the root, as in /models/qwen2.5-32b.")


def is_path(location: str) -> bool:
    """An absolute path, or one below the home directory of the account on the host."""
    return location.startswith(("/", "~/")) and "\n" not in location and len(location) > 1


def name_of(location: str) -> str:
    """What to call a model nobody named: the last part of its path or id."""
    return PurePosixPath(location).name[:MAX_NAME] or location[:MAX_NAME]


def hub_snapshot(repository: str, revision: str) -> str | None:
    """Where the hub's cache in the account's home keeps this commit of a repository. None for a branch or tag: which
    commit it means only the hub knows."""
    if not _COMMIT.match(revision):
        return None
    return f"{_HUB_CACHE}/models--{repository.replace('/', '--')}/snapshots/{revision}"
