"""`manage.py render_config`: for people who keep configs in git."""

import io
import json
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from .samples import OPERATOR_FILE


def run(*arguments: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error); the database stays forbidden."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("render_config", *arguments, stdout=out, stderr=err)
    except SystemExit as left:
        return int(left.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("engine", ["0.8.5", "0.17.1"])
def test_a_good_config_prints_its_command_line(engine: str) -> None:
    code, out, err = run(str(OPERATOR_FILE), "--engine", engine)
    assert code == 0
    assert out.startswith("vllm serve /data/models/Qwen2.5-32B-Instruct --host 0.0.0.0 --port 8000 ")
    assert out.endswith(" --scheduling-policy fcfs --swap-space 8\n")
    assert err == "VLLM_API_KEY is passed in the environment, from the api_key in the file\n"


@pytest.mark.parametrize("engine", ["0.18.1", "0.33.0"])
def test_a_config_that_the_engine_cannot_run_prints_why_and_exits_1(engine: str) -> None:
    code, out, err = run(str(OPERATOR_FILE), "--engine", engine)
    assert (code, out) == (1, "")
    assert err == (
        f"{OPERATOR_FILE}:26:1: error: [scheduler] swap_space: vLLM has no --swap-space since 0.18.0; "
        "0.17.1 was the last with it. It had no effect on the V1 engine, which recomputes instead of swapping to the "
        "CPU. Remove the key.\n"
    )


def test_json_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('[model]\nmodel_path = "m"\n[server]\napi_key = "secret:prod"\n')
    code, out, _ = run(str(path), "--engine", "0.34.0", "--json")
    assert code == 0
    assert json.loads(out) == {
        "ok": True,
        "engine": "0.33.0",
        "note": "vLLM 0.34.0 is not in the catalogue: checked as 0.33.0, the newest known release.",
        "argv": ["vllm", "serve", "m"],
        "environment": {"VLLM_API_KEY": "secret:prod"},
        "problems": [],
    }


def test_problems_of_the_file_and_of_the_engine_come_together(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[model]\nmodel_path = null\n[scheduler]\nswap_space = 4\n[server]\nprt = 1\n")
    code, out, _ = run(str(path), "--engine", "0.33.0", "--json")
    said = json.loads(out)
    assert (code, said["ok"], said["argv"]) == (1, False, None)
    assert [(p["code"], p["line"], p["column"]) for p in said["problems"]] == [
        ("null", 2, 14),
        ("removed", 4, 1),
        ("unknown_key", 6, 1),
    ]


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'[model]\nmodel_path = "m m"\n')))
    assert run("-", "--engine", "0.33.0") == (0, "vllm serve 'm m'\n", "")


def test_the_key_is_never_printed() -> None:
    for flags in ([], ["--json"]):
        assert "sk-example" not in "".join(map(str, run(str(OPERATOR_FILE), "--engine", "0.17.1", *flags)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/nonexistent.toml", "--engine", "0.33.0"], "cannot be read: No such file or directory"),
        ([str(OPERATOR_FILE), "--engine", "0.7.0"], "the oldest known release is 0.8.0"),
        ([str(OPERATOR_FILE), "--engine", "latest"], "is not a vLLM version"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run(*arguments)
