"""Configs over REST: import, check, versions, command lines, what breaks on a release, the catalogue of options."""

import difflib
from typing import Any

import pydantic
from django.http import HttpRequest, HttpResponse
from ninja import Router, Status
from ninja.errors import ValidationError

from controlplane.configs import queries, schemas, services
from controlplane.configs.domain.difference import differences
from controlplane.configs.domain.document import MAX_BYTES, read
from controlplane.configs.models import ConfigVersion
from controlplane.core.errors import Invalid, NotFound
from controlplane.core.paging import page_of
from controlplane.core.permissions import require_operator
from controlplane.core.rest import PageOut, page_out

router = Router(tags=["configs"])

IMPORT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": schemas.ConfigImportIn.json_schema()},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "name": {"type": "string"},
                        "note": {"type": "string"},
                    },
                }
            },
        },
    }
}
PLAIN_TEXT: dict[str, Any] = {
    "responses": {200: {"description": "The text.", "content": {"text/plain": {"schema": {"type": "string"}}}}}
}


@router.post(
    "/configs/import",
    response={200: schemas.ConfigImportedOut, 201: schemas.ConfigImportedOut},
    summary="Import a config file",
    openapi_extra=IMPORT_BODY,
)
def import_config(request: HttpRequest) -> Status[Any]:
    """As JSON, or as multipart with `file`, which is kept byte for byte. 201 for a new version, 200 when the same file
    is there already. All problems come at once, in `problems`."""
    actor = require_operator(request)
    raw, name, note = _import_of(request)
    version, is_new = services.import_config(raw=raw, name=name or None, note=note, actor=actor)
    return _made(version, is_new=is_new)


@router.post("/configs/check", response=schemas.ConfigCheckOut, summary="Check a text without keeping it")
def check_config(request: HttpRequest, body: schemas.ConfigCheckIn) -> Any:
    target = queries.target_of(release=body.release, engine_id=body.engine_id)
    raw = body.toml.encode()
    return schemas.check_out(queries.check_text(raw, read(raw), target))


@router.get("/configs/what-breaks", response=schemas.ConfigBreakageOut, summary="What would break on a vLLM release")
def what_breaks(request: HttpRequest, release: str = "") -> Any:
    """The latest version of every config, and what is deployed or runs. Without `release`: the newest known one."""
    return schemas.breakage_out(queries.what_breaks(release))


@router.get("/configs", response=PageOut[schemas.ConfigOut], summary="Configs")
def list_configs(
    request: HttpRequest, q: str = "", archived: bool = False, sort: str = "name", page: int = 1
) -> dict[str, Any]:
    """`sort`: name, changed, versions, running, run; `-` reverses."""
    found = page_of(queries.configs(search=q, is_archived=archived, sort=sort), page)
    rows = {row.config.pk: row for row in queries.rows_of(found.items)}
    return page_out(found, lambda config: schemas.config_out(rows[config.pk]))


@router.get("/configs/{name}", response=schemas.ConfigOut, summary="One config")
def get_config(request: HttpRequest, name: str) -> Any:
    return _config_out(name)


@router.patch("/configs/{name}", response=schemas.ConfigOut, summary="Rename, describe or archive a config")
def patch_config(request: HttpRequest, name: str, body: schemas.ConfigPatch) -> Any:
    actor = require_operator(request)
    config = queries.config_named(name)
    if body.name is not None:
        services.rename_config(config=config, name=body.name, actor=actor)
    if body.description is not None:
        services.describe_config(config=config, description=body.description, actor=actor)
    if body.is_archived is not None:
        act = services.archive_config if body.is_archived else services.unarchive_config
        act(config=config, actor=actor)
    return _config_out(config.name)


@router.get(
    "/configs/{name}/versions", response=PageOut[schemas.ConfigVersionOut], summary="Versions, the newest first"
)
def list_versions(request: HttpRequest, name: str, page: int = 1) -> dict[str, Any]:
    return page_out(page_of(queries.versions_of(queries.config_named(name)), page), schemas.version_out)


@router.get("/configs/{name}/versions/{number}", response=schemas.ConfigVersionDetailOut, summary="One version")
def get_version(request: HttpRequest, name: str, number: int) -> Any:
    return schemas.version_detail_out(queries.version_of(name, number))


@router.get("/configs/{name}/versions/{number}/export", summary="The file, byte for byte", openapi_extra=PLAIN_TEXT)
def export_version(request: HttpRequest, name: str, number: int) -> HttpResponse:
    return _text(bytes(queries.version_of(name, number).toml))


@router.get("/configs/{name}/versions/{number}/check", response=schemas.ConfigCheckOut, summary="Check a version")
def check_version(request: HttpRequest, name: str, number: int, release: str = "", engine_id: int | None = None) -> Any:
    target = queries.target_of(release=release, engine_id=engine_id)
    return schemas.check_out(queries.check_version(queries.version_of(name, number), target))


@router.get("/configs/{name}/versions/{number}/command", response=schemas.ConfigCommandOut, summary="The command line")
def get_command(request: HttpRequest, name: str, number: int, release: str = "", engine_id: int | None = None) -> Any:
    """409 with every problem when that vLLM would refuse it. Without release and engine: the newest known release."""
    target = queries.target_of(release=release, engine_id=engine_id)
    return schemas.command_out(queries.command_for(queries.version_of(name, number), target), target)


@router.get(
    "/configs/{name}/versions/{number}/export/{format}",
    summary="As shell script, systemd unit or compose service",
    openapi_extra=PLAIN_TEXT,
)
def export_as(
    request: HttpRequest, name: str, number: int, format: str, release: str = "", engine_id: int | None = None
) -> HttpResponse:
    """`format`: shell, systemd, compose. Keys are never in it."""
    target = queries.target_of(release=release, engine_id=engine_id)
    _name, text = queries.export_for(queries.version_of(name, number), target, format)
    return _text(text.encode())


@router.post(
    "/configs/{name}/versions/{number}/change",
    response={200: schemas.ConfigImportedOut, 201: schemas.ConfigImportedOut},
    summary="A next version with some keys set or removed",
)
def change_version(request: HttpRequest, name: str, number: int, body: schemas.ConfigChangeIn) -> Status[Any]:
    """Comments, order and everything else stay. 200 when nothing changes."""
    actor = require_operator(request)
    version, is_new = services.change_version(
        version=queries.version_of(name, number), values=body.places(), note=body.note, actor=actor
    )
    return _made(version, is_new=is_new)


@router.post(
    "/configs/{name}/versions/{number}/fix",
    response={200: schemas.ConfigImportedOut, 201: schemas.ConfigImportedOut},
    summary="A next version without what an engine would refuse",
)
def fix_version(request: HttpRequest, name: str, number: int, body: schemas.ConfigTargetIn) -> Status[Any]:
    """As far as that needs no person; 409 when nothing can be done."""
    actor = require_operator(request)
    target = queries.target_of(release=body.release, engine_id=body.engine_id)
    version, is_new = services.fix_version(version=queries.version_of(name, number), target=target, actor=actor)
    return _made(version, is_new=is_new)


@router.get("/configs/{name}/versions/{number}/diff", response=schemas.ConfigDiffOut, summary="Compare two versions")
def diff_versions(request: HttpRequest, name: str, number: int, against: int | None = None) -> Any:
    """`against` is another version's number; without it the version that this one was made from."""
    after = queries.version_of(name, number)
    before = queries.version_of(name, against) if against is not None else after.parent or after
    left, right = (bytes(one.toml).decode(errors="replace").splitlines() for one in (before, after))
    return schemas.ConfigDiffOut(
        before=str(before),
        after=str(after),
        changes=schemas.changes_out(differences(before.content, after.content)),
        unified="\n".join(difflib.unified_diff(left, right, str(before), str(after), lineterm="")),
    )


@router.get("/flags", response=PageOut[schemas.FlagOut], summary="Options of vLLM over all known releases")
def list_flags(request: HttpRequest, q: str = "", status: str = "", page: int = 1) -> dict[str, Any]:
    """`status`: current, removed, moved (their default changed)."""
    return page_out(queries.slice_of(queries.flags(search=q, status=status), page), schemas.flag_out)


@router.get("/flags/{name}", response=schemas.FlagOut, summary="One option: when it came, went, what replaces it")
def get_flag(request: HttpRequest, name: str) -> Any:
    """`name`: swap_space, --swap-space, or the key of a config."""
    entry = queries.flag_named(name)
    if entry is None:
        raise NotFound("No known release of vLLM has, or had, this option.", remedy="Search GET /flags?q=… for it.")
    return schemas.flag_out(entry)


def _import_of(request: HttpRequest) -> tuple[bytes, str, str]:
    """(bytes, name, note) of either kind of body."""
    if not (request.content_type or "").startswith("multipart/"):
        try:
            body = schemas.ConfigImportIn.model_validate_json(request.body)
        except pydantic.ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            raise ValidationError([{**fault, "loc": ("body", *fault["loc"])} for fault in faults]) from None
        return body.raw, body.name, body.note
    file = request.FILES.get("file")
    if file is None or file.size is None or file.size > MAX_BYTES:
        remedy = f"Send a config of at most {MAX_BYTES} bytes as “file”."
        raise Invalid("There is no file, or it is too large to be a config.", remedy=remedy)
    return bytes(file.read()), request.POST.get("name", ""), request.POST.get("note", "")


def _made(version: ConfigVersion, *, is_new: bool) -> Status[Any]:
    detail = queries.version_details().get(pk=version.pk)
    return Status(201 if is_new else 200, schemas.imported_out(detail, is_new=is_new))


def _config_out(name: str) -> schemas.ConfigOut:
    return schemas.config_out(queries.rows_of([queries.config_named(name)])[0])


def _text(content: bytes) -> HttpResponse:
    return HttpResponse(content, content_type="text/plain; charset=utf-8")
