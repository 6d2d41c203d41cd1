"""What the API takes and gives for hosts, engines and models."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from ninja import Field, Schema
from pydantic import AfterValidator, model_validator

from controlplane.core.rest import BodyIn
from controlplane.inventory.domain.options import Option
from controlplane.inventory.models import Accelerator, Engine, Host, ModelArtifact, ModelCopy
from controlplane.inventory.services.hosts import SshAccess

MAX_TEXT = 20_000


def _without_nul(text: str) -> str:
    """Postgres keeps every character but this one."""
    if "\x00" in text:
        raise ValueError("The text holds a NUL character.")
    return text


Text = Annotated[str, AfterValidator(_without_nul)]


class SshIn(BodyIn):
    """How to reach a host over SSH, with `key_name` (a stored SSH key) or `new_key` (a private key, to store)."""

    address: Text = Field(max_length=255)
    port: int = 22
    username: Text = Field(max_length=80)
    key_name: Text = Field(default="", max_length=120)
    new_key: Text = Field(default="", max_length=MAX_TEXT, description="Never given back.")
    jump_host: Text = Field(default="", max_length=80, description="The name of a host to go through.")
    expected_fingerprint: Text = Field(
        default="",
        max_length=120,
        description="SHA256:…; a matching host key is pinned without asking, another refused.",
    )

    def access(self) -> SshAccess:
        return SshAccess(**self.dict())


class HostIn(BodyIn):
    name: Text = Field(max_length=80)
    transport: Literal["ssh", "local"] = "ssh"
    ssh: SshIn | None = Field(default=None, description="Needed for transport ssh.")
    engine_paths: list[Text] = Field(default_factory=list, max_length=50)
    root: Text = Field(default="", max_length=400)
    note: Text = Field(default="", max_length=MAX_TEXT)

    @model_validator(mode="after")
    def _ssh_says_how(self) -> Self:
        if self.transport == "ssh" and self.ssh is None:
            raise ValueError("Transport ssh needs “ssh”: address, username and a key.")
        return self

    def access(self) -> SshAccess | None:
        return self.ssh.access() if self.ssh and self.transport == "ssh" else None


class HostPatch(BodyIn):
    """Only what is given changes."""

    ssh: SshIn | None = None
    engine_paths: list[Text] | None = Field(default=None, max_length=50)
    root: Text | None = Field(default=None, max_length=400)
    note: Text | None = Field(default=None, max_length=MAX_TEXT)
    is_in_maintenance: bool | None = None


class FingerprintIn(BodyIn):
    fingerprint: Text = Field(max_length=120, description="The one you compared on the machine: SHA256:…")


class HostOut(Schema):
    id: int
    name: str
    transport: str
    address: str
    port: int
    username: str
    state: str
    state_since: datetime | None
    error_code: str
    error: str
    error_remedy: str
    is_in_maintenance: bool
    is_probing: bool
    probed_at: datetime | None
    last_seen_at: datetime | None
    gpu_status: str | None
    gpu_count: int
    gpu_memory_bytes: int | None
    engine_versions: list[str]
    live_instances: int


class HostDetailOut(HostOut):
    key_name: str
    jump_host: str
    host_key: str
    host_key_fingerprint: str
    offered_fingerprint: str
    awaits_pinning: bool
    has_changed_key: bool
    engine_paths: list[str]
    root: str
    note: str
    facts: dict[str, Any]


class HostKeyOut(Schema):
    """`pinned` is what is trusted; `offered` what the host showed last and nobody confirmed."""

    pinned: str
    pinned_fingerprint: str
    offered: str
    offered_fingerprint: str
    awaits_pinning: bool
    has_changed_key: bool
    how_to_compare: str


class AcceleratorOut(Schema):
    uuid: str
    index: int
    name: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    utilisation_percent: float | None
    driver: str
    compute_capability: str
    processes: list[dict[str, Any]]
    seen_at: datetime | None
    missing_since: datetime | None


class EngineOut(Schema):
    id: int
    host: str
    executable: str
    version: str
    device: str
    distribution: str
    build: str
    option_count: int | None
    option_list_error: str
    error: str
    found_at: datetime
    missing_since: datetime | None


class OptionOut(Schema):
    dest: str
    flags: list[str]
    group: str
    kind: str = Field(description="bool, int, float, str or json")
    takes_several: bool
    choices: list[Any]
    default: Any = None
    is_deprecated: bool
    help: str


class ModelIn(BodyIn):
    source: Literal["path", "repository"] = "path"
    location: Text = Field(max_length=500, description="The path on the hosts, or the repository id.")
    revision: Text = Field(default="", max_length=120)
    name: Text = Field(default="", max_length=200, description="Empty: the last part of the location.")
    hosts: list[Text] = Field(default_factory=list, max_length=200, description="Names of the hosts to look on.")
    note: Text = Field(default="", max_length=MAX_TEXT)


class ModelCopyOut(Schema):
    """`facts` as the host program read them; lists leave `weight_files` out."""

    host: str
    path: str
    facts: dict[str, Any]
    error_code: str
    error: str
    error_remedy: str
    inspected_at: datetime | None


class ModelOut(Schema):
    id: int
    name: str
    source: str
    location: str
    revision: str
    note: str
    created_by: str
    created_at: datetime
    copies: list[ModelCopyOut]


class ModelDetailOut(ModelOut):
    configs: list[str]


def host_out(host: Host) -> HostOut:
    return HostOut(**_host_fields(host))


def host_detail_out(host: Host) -> HostDetailOut:
    return HostDetailOut(
        **_host_fields(host),
        key_name=host.ssh_key.name if host.ssh_key else "",
        jump_host=host.jump_host.name if host.jump_host else "",
        **{name: getattr(host, name) for name in ("host_key", "host_key_fingerprint", "offered_fingerprint")},
        **{name: getattr(host, name) for name in ("awaits_pinning", "has_changed_key", "engine_paths", "root", "note")},
        facts=host.facts,
    )


def _host_fields(host: Host) -> dict[str, Any]:
    gpus = [gpu for gpu in host.accelerators.all() if gpu.missing_since is None]
    engines = [engine for engine in host.engines.all() if engine.missing_since is None]
    copied = "id name transport address port username state state_since error_code error error_remedy is_in_maintenance"
    also = "is_probing probed_at last_seen_at gpu_status gpu_memory_bytes live_instances"
    return {name: getattr(host, name) for name in f"{copied} {also}".split()} | {
        "gpu_count": len(gpus),
        "engine_versions": sorted({engine.version for engine in engines if engine.version}),
    }


def host_key_out(host: Host) -> HostKeyOut:
    return HostKeyOut(
        pinned=host.host_key,
        pinned_fingerprint=host.host_key_fingerprint,
        offered=host.offered_host_key,
        offered_fingerprint=host.offered_fingerprint,
        awaits_pinning=host.awaits_pinning,
        has_changed_key=host.has_changed_key,
        how_to_compare="On the host: for f in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $f; done",
    )


def accelerator_out(gpu: Accelerator) -> AcceleratorOut:
    return AcceleratorOut(**{name: getattr(gpu, name) for name in AcceleratorOut.model_fields})


def engine_out(engine: Engine) -> EngineOut:
    copied = {name: getattr(engine, name) for name in EngineOut.model_fields if name not in {"host", "option_count"}}
    return EngineOut(
        **copied,
        host=engine.host.name,
        option_count=engine.option_list.option_count if engine.option_list else None,
    )


def option_out(option: Option) -> OptionOut:
    return OptionOut(**{name: getattr(option, name) for name in OptionOut.model_fields})


def model_out(model: ModelArtifact) -> ModelOut:
    return ModelOut(**_model_fields(model))


def model_detail_out(model: ModelArtifact, configs: list[str]) -> ModelDetailOut:
    return ModelDetailOut(**_model_fields(model), configs=configs)


def _model_fields(model: ModelArtifact) -> dict[str, Any]:
    copied = ("id", "name", "source", "location", "revision", "note", "created_by", "created_at")
    return {name: getattr(model, name) for name in copied} | {
        "copies": [_copy_out(copy) for copy in model.copies.all()]
    }


def _copy_out(copy: ModelCopy) -> ModelCopyOut:
    copied = {name: getattr(copy, name) for name in ModelCopyOut.model_fields if name not in {"host", "facts"}}
    return ModelCopyOut(**copied, host=copy.host.name, facts=copy.brief_facts)
