"""The smoke request: one real question, the answer kept with what it cost."""

from typing import Any

from django.utils import timezone

from controlplane.fleet.models import Instance, State
from controlplane.fleet.reconcile import engine_http
from controlplane.fleet.reconcile.advancing import whole


def ask_smoke(instance_id: int, prompt: str) -> None:
    """Send `prompt` as one chat completion and keep text, prompt and completion tokens, and time on the instance."""
    instance = whole().filter(pk=instance_id, state=State.READY).first()
    if instance is None:
        return
    answer = engine_http.ask_question(instance, prompt)
    smoke = {
        "prompt": prompt,
        "at": timezone.now().isoformat(),
        "elapsed_ms": round(answer.elapsed_ms, 1),
        **_read(answer),
    }
    Instance.objects.filter(pk=instance.pk).update(smoke=smoke)


def _read(answer: engine_http.Answer) -> dict[str, Any]:
    body = answer.json()
    if not answer.is_ok:
        error = body.get("error")
        message = error.get("message") if isinstance(error, dict) else error
        return {"state": "failed", "status": answer.status, "error": str(message or answer.body)[:500]}
    usage = body.get("usage") or {}
    choices = body.get("choices") or [{}]
    return {
        "state": "answered",
        "answer": str((choices[0].get("message") or {}).get("content") or ""),
        "finish_reason": choices[0].get("finish_reason"),
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
    }
