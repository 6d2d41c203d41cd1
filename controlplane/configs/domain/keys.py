"""The keys of a service config: sections, types, ranges, and the vLLM option behind each."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["str", "names", "int", "size", "float", "bool", "path"]

ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a fixed section.

    `dest` is vLLM's name; None for api_key, which never becomes an argument. `low` and `high` bound numbers; `above` is
    a bound that is itself excluded. `names` is a text or a list of texts; `size` an integer or 8k, 25.6k.
    """

    section: str
    name: str
    dest: str | None
    kind: Kind
    low: float | None = None
    high: float | None = None
    above: float | None = None
    choices: tuple[str, ...] | None = None
    unit: str = ""

    @property
    def label(self) -> str:
        return f"[{self.section}] {self.name}"


KEYS: tuple[Key, ...] = (
    Key("server", "host", "host", "str"),
    Key("server", "port", "port", "int", low=1, high=65535),
    Key("server", "api_key", None, "str"),
    Key("server", "served_model_name", "served_model_name", "names"),
    Key("model", "model_path", "model_tag", "path"),
    Key("model", "tokenizer_path", "tokenizer", "path"),
    Key("model", "dtype", "dtype", "str"),
    Key("model", "quantization", "quantization", "str"),
    Key("model", "max_model_len", "max_model_len", "size", low=1, unit="tokens"),
    Key("model", "gpu_memory_utilization", "gpu_memory_utilization", "float", above=0, high=1),
    Key("model", "tensor_parallel_size", "tensor_parallel_size", "int", low=1, unit="GPUs"),
    Key("model", "trust_remote_code", "trust_remote_code", "bool"),
    Key("batching", "max_num_seqs", "max_num_seqs", "int", low=1),
    Key("batching", "max_num_batched_tokens", "max_num_batched_tokens", "size", low=1, unit="tokens"),
    Key("batching", "enable_chunked_prefill", "enable_chunked_prefill", "bool"),
    Key("batching", "enable_prefix_caching", "enable_prefix_caching", "bool"),
    Key("scheduler", "scheduler_policy", "scheduling_policy", "str", choices=("fcfs", "priority")),
    Key("scheduler", "swap_space", "swap_space", "float", low=0, unit="GiB"),
    Key("observability", "disable_log_stats", "disable_log_stats", "bool"),
)
SECTIONS: tuple[str, ...] = (*dict.fromkeys(key.section for key in KEYS), ENGINE)
BY_PLACE: dict[tuple[str, str], Key] = {(key.section, key.name): key for key in KEYS}

# Options that may not stand under [engine], and what to do instead. The control plane sets them itself or would lose
# the server if they were set.
_OWN_KEY = "Write it as {key} in [{section}]."
MANAGED: dict[str, str] = {
    "config": "The control plane renders the command line itself. Write the options of that file as keys here.",
    "grpc": "The control plane and its gateway talk HTTP to the server. Remove the key.",
    "headless": "The control plane decides which process of a launch serves HTTP. Remove the key.",
    "uds": "The server is reached by host and port. Remove the key.",
    **{
        name: _OWN_KEY.format(key=key.name, section=key.section)
        for key in KEYS
        for name in (key.dest or key.name, key.name)
        if key.name in {"host", "port", "api_key", "served_model_name", "model_path"}
    },
    "model": _OWN_KEY.format(key="model_path", section="model"),
}

# Options whose value is a credential. True lets vLLM read its own login on the host.
SECRET_OPTIONS: dict[str, str] = {
    "hf_token": "Remove the key and give the host the token as HF_TOKEN, or write hf_token = true to use its login.",
}


def key_of_dest(dest: str) -> Key | None:
    """The fixed key behind a vLLM option, if it has one."""
    return next((key for key in KEYS if dest in (key.dest, key.name)), None)
