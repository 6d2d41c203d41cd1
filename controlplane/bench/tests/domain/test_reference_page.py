"""docs/reference/metrics.md says what the code does."""

from __future__ import annotations

import re

import pytest

from controlplane.bench.domain.bundle import PACKAGE_ROOT
from controlplane.bench.domain.metrics import DEFINITIONS, Definition
from controlplane.bench.domain.outcome import ExitCode
from controlplane.bench.domain.workloads import BUILT_IN, Workload

REFERENCE = (PACKAGE_ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
EXPLANATION = (PACKAGE_ROOT / "docs/explain/benchmarking.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=lambda each: each.id)
def test_every_definition_stands_on_the_page_as_it_is_in_the_code(definition: Definition) -> None:
    cells = (f"`{definition.id}`", definition.label, definition.unit, definition.better, definition.formula)
    assert f"| {' | '.join(cells)} |" in REFERENCE


def test_every_exit_code_stands_on_the_page_and_no_other() -> None:
    table = REFERENCE.split("| exit code |")[1].split("##")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == sorted(ExitCode)


@pytest.mark.parametrize("workload", BUILT_IN, ids=lambda each: each.name)
def test_every_built_in_workload_is_described_by_its_numbers(workload: Workload) -> None:
    shared = f"{workload.prefix_words} shared + " if workload.prefix_words else ""
    numbers = (workload.concurrency, workload.requests, f"{shared}{workload.prompt_words} words", workload.max_tokens)
    assert f"| `{workload.name}` | {' | '.join(map(str, numbers))} | {workload.context_tokens:,} |" in EXPLANATION
