"""Every operation of the API against invented input: no server error, no status that the description does not name.

Schemathesis reads our own description and sends what it allows and what it forbids. The operations run in this process
on the test database; nothing is sent to a broker or a host.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from django.core.management import call_command
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.db.models import QuerySet
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import status_code_conformance

from controlplane.accounts.models import User
from controlplane.accounts.services import create_token
from controlplane.api import api
from controlplane.bench.models import Run
from controlplane.configs.models import Config, ConfigVersion
from controlplane.fleet.models import Attempt, Instance
from controlplane.inventory.models import Engine, Host, ModelArtifact
from controlplane.release.models import Promotion

EXAMPLES = 15

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

schema = schemathesis.openapi.from_dict(api.get_openapi_schema())
OPERATIONS = {found.ok().label: found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)}


WHAT_THERE_IS: dict[str, tuple[Callable[[], QuerySet[Any]], str]] = {
    "host_id": (Host.objects.all, "pk"),
    "engine_id": (Engine.objects.all, "pk"),
    "model_id": (ModelArtifact.objects.all, "pk"),
    "name": (Config.objects.all, "name"),
    "number": (ConfigVersion.objects.all, "number"),
    "instance_id": (Instance.objects.all, "pk"),
    "attempt_id": (Attempt.objects.all, "pk"),
    "run_id": (Run.objects.all, "pk"),
    "promotion_id": (Promotion.objects.all, "pk"),
}
"""Path parameters by name, and where a real value of each comes from."""


@pytest.fixture
def _one_connection() -> Iterator[None]:
    """The test's transaction lives on one connection, which a real server would close between requests."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def send(db: None, _one_connection: None, person: Callable[[str], User]) -> Callable[[Any], None]:
    """Send a case as an administrator and hold the answer against the description; what it wrote is rolled back."""
    call_command("seed_large", hosts=3, instances=4, runs=6, verbosity=0)
    _, token = create_token(user=person("admin"), name="schemathesis")
    schema.app = application = get_wsgi_application()

    there = {name: str(find().values_list(field, flat=True).first()) for name, (find, field) in WHAT_THERE_IS.items()}

    def one(case: Any) -> None:
        if case.meta.generation.mode == GenerationMode.POSITIVE:  # an invented id would only ever meet 404
            case.path_parameters.update({name: there[name] for name in case.path_parameters if name in there})
        with transaction.atomic():
            case.call_and_validate(
                headers={"Authorization": f"Bearer {token}"},
                checks=[not_a_server_error, status_code_conformance],
                app=application,
            )
            transaction.set_rollback(True)

    return one


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "forbidden"])
@pytest.mark.parametrize("label", OPERATIONS)
def test_answers_as_described(label: str, mode: GenerationMode, send: Callable[[Any], None]) -> None:
    cases = OPERATIONS[label].as_strategy(generation_mode=mode)

    @given(case=cases)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answers(case: Any) -> None:
        send(case)

    answers()
