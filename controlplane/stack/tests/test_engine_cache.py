"""Where the CPU engine is kept, and what happens when it cannot be made. The real installation runs in the e2e ring."""

from pathlib import Path

import pytest

from controlplane.stack import engine
from controlplane.stack.engine import Engine, EngineUnavailable

NO_ENGINE = Engine(vllm=Path("/nowhere/vllm"), python=Path("/nowhere/python"), is_cpu_build=True)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONTROLPLANE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_key_follows_every_byte_of_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("a==1\n")
    first = engine.recipe_key(tmp_path, "*.txt", "shim/*")
    assert engine.recipe_key(tmp_path, "*.txt", "shim/*") == first
    (tmp_path / "requirements.txt").write_text("a==2\n")
    second = engine.recipe_key(tmp_path, "*.txt", "shim/*")
    assert second != first
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim" / "module.py").write_text("")
    assert engine.recipe_key(tmp_path, "*.txt", "shim/*") not in {first, second}


def test_an_engine_that_is_done_is_used_without_running_anything(tmp_path: Path) -> None:
    (tmp_path / ".complete").touch()
    found = engine.ensure_engine(dest=tmp_path, own_vllm="no-such-vllm")
    assert found == Engine(vllm=tmp_path / "bin" / "vllm", python=tmp_path / "bin" / "python", is_cpu_build=True)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(EngineUnavailable, match="not empty"):
        engine.ensure_engine(dest=tmp_path, own_vllm="no-such-vllm")
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_an_interrupted_model_is_made_again_and_never_used(cache: Path) -> None:
    folder = cache / "half"
    folder.mkdir(parents=True)
    (folder / ".in-progress").touch()
    (folder / "model.safetensors").write_text("half")
    with pytest.raises(FileNotFoundError):  # it went on to run the engine's Python
        engine.ensure_model(NO_ENGINE, "tiny", dest=folder)
    assert not (folder / "model.safetensors").exists()
    assert not engine.is_complete(folder)


def test_an_unknown_kind_of_model_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="'huge'"):
        engine.ensure_model(NO_ENGINE, "huge")


def test_a_gpu_machines_own_vllm_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'")
    _program(tmp_path / "vllm", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = engine.find_own_vllm()
    assert found is not None
    assert (found.vllm, found.is_cpu_build) == (tmp_path / "vllm", False)


def test_a_vllm_without_a_working_gpu_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "nvidia-smi", "echo 'NVIDIA-SMI has failed' >&2; exit 9")
    _program(tmp_path / "vllm", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert engine.find_own_vllm() is None


@pytest.mark.slow
def test_a_missing_torch_names_the_option_to_use(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))
    with pytest.raises(EngineUnavailable, match=r"pip found no torch==2\.13\.0\+cpu") as caught:
        engine.ensure_engine(own_vllm="no-such-vllm")
    assert "CPU wheel index" in caught.value.remedy
    assert "PIP_EXTRA_INDEX_URL" in caught.value.remedy
    assert not any(engine.is_complete(folder) for folder in (cache / "engines").iterdir() if folder.is_dir())


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
