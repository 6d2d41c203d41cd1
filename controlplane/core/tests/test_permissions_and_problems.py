"""Who may do what, and how a refusal reads, on pages and over the API."""

import json
from collections.abc import Callable

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from controlplane.accounts.models import ApiToken, User
from controlplane.core.errors import Conflict, Forbidden, Invalid, NotFound, Problem
from controlplane.core.middleware import ProblemMiddleware
from controlplane.core.permissions import actor_of, require_admin, require_operator
from controlplane.core.rest import problem_of


def request_of(user: User, *, token: ApiToken | None = None) -> HttpRequest:
    request = RequestFactory().get("/")
    request.user = user
    if token is not None:
        request.api_token = token  # type: ignore[attr-defined]
    return request


@pytest.mark.parametrize(
    ("role", "operates", "administers"),
    [("viewer", False, False), ("operator", True, False), ("admin", True, True)],
)
def test_each_role_may_what_it_may(person: Callable[[str], User], role: str, operates: bool, administers: bool) -> None:
    request = request_of(person(role))
    for require, may in ((require_operator, operates), (require_admin, administers)):
        if may:
            assert require(request) == role
        else:
            with pytest.raises(Forbidden, match="needs the role"):
                require(request)


def test_somebody_deactivated_may_nothing(person: Callable[[str], User]) -> None:
    user = person("admin")
    user.is_active = False
    with pytest.raises(Forbidden):
        require_operator(request_of(user))


def test_a_token_that_can_only_read_changes_nothing_whoever_owns_it(person: Callable[[str], User]) -> None:
    token = ApiToken(name="dashboard", is_read_only=True)
    with pytest.raises(Forbidden, match="only read"):
        require_operator(request_of(person("admin"), token=token))


def test_the_log_says_which_token_acted(person: Callable[[str], User]) -> None:
    request = request_of(person("admin"), token=ApiToken(name="nightly"))
    assert actor_of(request) == require_admin(request) == "admin (token nightly)"


@pytest.mark.parametrize(("kind", "status"), [(NotFound, 404), (Invalid, 422), (Conflict, 409), (Forbidden, 403)])
def test_a_problem_becomes_json_with_sentence_code_and_remedy(kind: type[Problem], status: int) -> None:
    answer = problem_of(kind("It is so.", remedy="Do this.", extra={"problems": [{"line": 3, "message": "no"}]}))
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    assert json.loads(answer.content) == {
        "status": status,
        "code": kind.code,
        "title": "It is so.",
        "remedy": "Do this.",
        "problems": [{"line": 3, "message": "no"}],
    }


def test_a_problem_may_bring_its_own_code_and_keeps_the_remedy_of_its_class() -> None:
    class Full(Conflict):
        code = "full"
        remedy = "Make room."

    assert (Full("x").code, Full("x").remedy) == ("full", "Make room.")
    assert (Full("x", code="other", remedy="").code, Full("x", code="other", remedy="").remedy) == ("other", "")


def test_a_page_that_raises_a_problem_becomes_a_page_and_for_htmx_a_notice(person: Callable[[str], User]) -> None:
    middleware = ProblemMiddleware(lambda request: None)  # type: ignore[arg-type,return-value]
    problem = Conflict("chat-0 is stopping.", remedy="Wait until it has stopped.")
    request = request_of(person("viewer"))
    page = middleware.process_exception(request, problem)
    assert page is not None
    assert page.status_code == 409
    assert "chat-0 is stopping." in page.content.decode()
    assert "<html" in page.content.decode()
    fragment = RequestFactory().get("/", headers={"HX-Request": "true"})
    fragment.user = request.user
    notice = middleware.process_exception(fragment, problem)
    assert notice is not None
    assert "Wait until it has stopped." in notice.content.decode()
    assert "<html" not in notice.content.decode()
    assert middleware.process_exception(request, ValueError("x")) is None
