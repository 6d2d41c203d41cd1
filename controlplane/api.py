"""The REST API: one router per app, one shape of error, one description."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.core.exceptions import ObjectDoesNotExist
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema

from controlplane.accounts.api import SessionAuth, TokenAuth
from controlplane.accounts.api import router as accounts
from controlplane.bench.api import router as bench
from controlplane.configs.api import router as configs
from controlplane.core.errors import Problem
from controlplane.core.rest import PROBLEM_TYPE, ProblemOut, problem_of, problem_response
from controlplane.fleet.api import router as fleet
from controlplane.inventory.api import router as inventory
from controlplane.ops.api import router as ops
from controlplane.release.api import router as release

PROBLEMS = {
    "400": "The request is not understood.",
    "401": "No valid token or session.",
    "403": "The role does not allow it.",
    "404": "There is no such thing.",
    "409": "The thing is not in a state that allows this.",
    "422": "The input cannot be used; nothing was changed.",
    "429": "Too many requests.",
    "503": "The database does not answer; look what was kept before sending it again.",
}


class ControlPlaneAPI(NinjaAPI):
    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        """Every operation can answer with the same problems: say so once, here."""
        schema = super().get_openapi_schema(**kwargs)
        schema["components"]["schemas"]["ProblemOut"] = ProblemOut.model_json_schema()
        body = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}}
        for operations in schema["paths"].values():
            for operation in operations.values():
                for status, description in PROBLEMS.items():
                    operation["responses"][status] = {"description": description, "content": body}
        return schema


api = ControlPlaneAPI(
    title="vLLM control plane",
    version="1",
    description="From a config file to a running vLLM server, a measured comparison, a promoted config, and back.",
    urls_namespace="api",
    openapi_url="/openapi.json",
    docs_url=None,  # our own page renders the description without a CDN and without inline scripts (web:api_docs)
    auth=[TokenAuth(), SessionAuth()],
)
for router in (accounts, inventory, configs, fleet, bench, release, ops):
    api.add_router("", router)


@api.exception_handler(Problem)
def _problem(request: HttpRequest, error: Problem) -> HttpResponse:
    return problem_of(error)


@api.exception_handler(ValidationError)
def _validation(request: HttpRequest, error: ValidationError) -> HttpResponse:
    problems = [{"where": _place_of(one["loc"]), "message": _words_of(one)} for one in error.errors]
    return problem_response(422, "invalid", "Some fields cannot be used.", "See “problems”.", problems)


def _place_of(location: Sequence[str | int]) -> str:
    """ "body.port" for ("body", "body", "port"): the second is the name of our function's parameter."""
    parts = [*location[:1], *location[2:]] if location[:2] == ("body", "body") else location
    return ".".join(map(str, parts))


def _words_of(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "extra_forbidden":
        return "There is no such field."
    return str(fault["msg"]).removeprefix("Value error, ")


@api.exception_handler(AuthenticationError)
def _authentication(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    return problem_response(
        401,
        "unauthenticated",
        "No valid token or session.",
        "Send “Authorization: Bearer vcp_…” (Settings, API tokens).",
    )


@api.exception_handler(HttpError)
def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    return problem_response(error.status_code, "bad_request", str(error))


@api.exception_handler(ObjectDoesNotExist)
@api.exception_handler(Http404)
def _missing(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem_response(
        404, "not_found", f"There is no such {_kind_of(error)}.", "Look its name or number up in the list."
    )


def _kind_of(error: Exception) -> str:
    """ "environment" for Environment.DoesNotExist: a request may name several things."""
    missing = type(error).__qualname__.partition(".")[0]
    return next((str(model._meta.verbose_name) for model in apps.get_models() if model.__name__ == missing), "thing")
