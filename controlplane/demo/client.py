"""A client of the REST API in a few lines, as anybody's script could have it."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

REQUEST_TIMEOUT_S = 60.0
POLL_S = 0.5


class StepFailed(Exception):  # noqa: N818  # a step of the demo, and why
    """A step did not work; the sentence says which and why, the remedy what to do."""

    def __init__(self, sentence: str, remedy: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.remedy = remedy


class Api:
    """`Api("http://localhost:8000", token).get("/hosts")`; problems become StepFailed."""

    def __init__(self, base_url: str, token: str) -> None:
        self.base_url = base_url.rstrip("/")
        self._token = token

    def get(self, path: str) -> Any:
        return self._call("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        return self._call("POST", path, body if body is not None else {})

    def text(self, path: str) -> str:
        """An answer that is not JSON, for example a table in Markdown."""
        return self._send("GET", path, None).decode()

    def wait(
        self,
        path: str,
        is_done: Callable[[Any], bool],
        *,
        timeout_s: float,
        what: str,
        now: Callable[[], float] = time.monotonic,
    ) -> Any:
        """Ask for `path` until `is_done`; StepFailed naming `what` and the last state when that takes too long."""
        end = now() + timeout_s
        while True:
            answer = self.get(path)
            if is_done(answer):
                return answer
            if now() > end:
                state = answer.get("state", "") if isinstance(answer, dict) else ""
                reason = answer.get("reason", "") if isinstance(answer, dict) else ""
                raise StepFailed(f"{what} took longer than {timeout_s:.0f} s (state {state}: {reason}).")
            time.sleep(POLL_S)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._send(method, path, None if body is None else json.dumps(body).encode())
        return json.loads(answer) if answer else None

    def _send(self, method: str, path: str, body: bytes | None) -> bytes:
        request = urllib.request.Request(  # noqa: S310  # our own address
            f"{self.base_url}/api/v1{path}",
            data=body,
            method=method,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as answer:  # noqa: S310
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise _failure(method, path, error.code, error.read()) from None
        except urllib.error.URLError as error:
            raise StepFailed(
                f"{self.base_url} does not answer: {error.reason}.", "Start the control plane with bin/up."
            ) from None


def _failure(method: str, path: str, status: int, body: bytes) -> StepFailed:
    try:
        problem = json.loads(body)
    except ValueError:
        return StepFailed(f"{method} {path} answered {status}.")
    details = " ".join(str(one.get("message", "")) for one in problem.get("problems", []))
    return StepFailed(f"{problem.get('title', status)} {details}".strip(), str(problem.get("remedy", "")))
