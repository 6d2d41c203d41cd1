"""The worlds of the benchmarks' tests."""

from collections.abc import Iterator

import pytest

from controlplane.bench.tests.fake_bench import BenchWorld, bench_world
from controlplane.drivers import links


@pytest.fixture
def world(db: None) -> Iterator[BenchWorld]:
    yield bench_world()
    links.close()
