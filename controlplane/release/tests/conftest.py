"""The world of promotions."""

from collections.abc import Iterator

import pytest

from controlplane.drivers import links
from controlplane.release.tests.worlds import ReleaseWorld, release_world


@pytest.fixture
def world(db: None) -> Iterator[ReleaseWorld]:
    yield release_world()
    links.close()
