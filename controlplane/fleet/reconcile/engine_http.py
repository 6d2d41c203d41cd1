"""Talking to an instance's own server through its host: readiness, metrics, one question."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.drivers.errors import HostRefused
from controlplane.fleet.models import Attempt, Instance
from controlplane.fleet.services.keys import key_of
from controlplane.inventory.services import call_host

ONE_TOKEN_TIMEOUT_S = 20.0
QUIET_EVERY_S, QUIET_FOR_S = 5.0, 0.5
"""How often a server whose log does not say that it listens is asked all the same."""
SMOKE_TIMEOUT_S = 60.0
SMOKE_TOKENS = 48
HOST_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said; `status` 0 means that it could not be reached, and `body` says why."""

    status: int
    body: str
    elapsed_ms: float

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> dict[str, Any]:
        """The body as an object; an empty one when it is none."""
        try:
            decoded = json.loads(self.body)
        except ValueError:
            return {}
        return decoded if isinstance(decoded, dict) else {}


def ask(
    instance: Instance, path: str, body: dict[str, Any] | None = None, *, timeout_s: float = 10.0, with_key: bool = True
) -> Answer:
    """One request to the instance's server, sent by the host program on its loopback."""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if with_key and (key := key_of(instance)):
        headers["Authorization"] = f"Bearer {key}"
    params = {
        "port": instance.port,
        "address": _own_address(instance.bind),
        "method": "GET" if body is None else "POST",
        "path": path,
        "headers": headers,
        "body": None if body is None else json.dumps(body),
        "timeout_s": timeout_s,
    }
    try:
        reply = call_host(instance.host, "http", params, timeout_s=timeout_s + HOST_MARGIN_S)
    except HostRefused as refusal:  # the host is there, the server is not (yet)
        return Answer(0, refusal.message, 0.0)
    return Answer(reply["status"], reply["body"], reply["elapsed_ms"])


def is_worth_asking(attempt: Attempt, now: datetime) -> bool:
    """Once the log says that it listens; else every few seconds, because a log level may hide that line."""
    if attempt.startup.get("startup_complete"):
        return True
    waited_s = (now - (attempt.launched_at or attempt.started_at)).total_seconds()
    return waited_s > QUIET_EVERY_S and waited_s % QUIET_EVERY_S < QUIET_FOR_S


def one_token(instance: Instance) -> Answer:
    """The readiness question: one token. Pooling models are asked for one embedding instead."""
    if is_pooling(instance):
        return ask(instance, "/v1/embeddings", {"model": instance.served_model_name, "input": "ready?"})
    body = {"model": instance.served_model_name, "prompt": "ready?", "max_tokens": 1, "temperature": 0}
    return ask(instance, "/v1/completions", body, timeout_s=ONE_TOKEN_TIMEOUT_S)


def ask_question(instance: Instance, prompt: str) -> Answer:
    """The smoke request: one short chat completion, or for pooling models an embedding."""
    if is_pooling(instance):
        return one_token(instance)
    body = {
        "model": instance.served_model_name,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": SMOKE_TOKENS,
    }
    return ask(instance, "/v1/chat/completions", body, timeout_s=SMOKE_TIMEOUT_S)


def _own_address(bind: str) -> str:
    """Where the host itself reaches a server that listens on `bind`."""
    return {"0.0.0.0": "127.0.0.1", "localhost": "127.0.0.1", "::": "::1"}.get(bind, bind)  # noqa: S104


def is_pooling(instance: Instance) -> bool:
    engine = instance.config_version.content.get("engine", {})
    return engine.get("runner") == "pooling" or engine.get("task") in {
        "embed",
        "embedding",
        "score",
        "classify",
        "reward",
    }
