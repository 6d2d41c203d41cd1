"""Settings: my account, my tokens, people."""

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import override
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from controlplane.accounts import queries, services
from controlplane.accounts.forms import AS_THE_BROWSER, LanguageForm, PasswordForm, PersonForm, TokenForm
from controlplane.accounts.models import ApiToken, Role, User
from controlplane.accounts.views.signing_in import remember_language
from controlplane.core.errors import Problem
from controlplane.core.listing import put_into
from controlplane.core.permissions import actor_of, require_admin


@require_GET
def account(request: HttpRequest) -> HttpResponse:
    return _account_page(request)


@require_POST
def change_password(request: HttpRequest) -> HttpResponse:
    user, form = cast(User, request.user), PasswordForm(request.POST)
    if not form.is_valid():
        return _account_page(request, password_form=form, status=422)
    try:
        services.change_password(user, old=form.cleaned_data["old"], new=form.cleaned_data["new"])
    except Problem as problem:
        put_into(form, problem)
        return _account_page(request, password_form=form, status=problem.status)
    update_session_auth_hash(request, user)
    messages.success(request, _("Your password is changed. Other browsers are signed out."))
    return redirect("accounts:settings")


@require_POST
def change_language(request: HttpRequest) -> HttpResponse:
    form = LanguageForm(request.POST)
    if not form.is_valid():
        return _account_page(request, language_form=form, status=422)
    language = form.chosen()
    services.set_language(cast(User, request.user), language=language)
    with override(language or None):
        messages.success(request, _("The language is changed."))
    response = redirect("accounts:settings")
    remember_language(response, language)
    return response


@never_cache
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        return _tokens_page(request, form=TokenForm())
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _tokens_page(request, form=form, status=422)
    try:
        token, text = services.create_token(
            user=cast(User, request.user),
            name=form.cleaned_data["name"],
            is_read_only=form.cleaned_data["is_read_only"],
            expires_at=form.expires_at(),
        )
    except Problem as problem:
        put_into(form, problem)
        return _tokens_page(request, form=form, status=problem.status)
    return _tokens_page(request, form=TokenForm(), made=token, text=text)


@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=token_id, user=cast(User, request.user))
    services.revoke_token(token, actor=actor_of(request))
    messages.success(request, _("The token %(name)s no longer works.") % {"name": token.name})
    return redirect("accounts:tokens")


@never_cache
@require_http_methods(["GET", "POST"])
def people(request: HttpRequest) -> HttpResponse:
    actor = require_admin(request)
    if request.method == "GET":
        return _people_page(request, form=PersonForm())
    form = PersonForm(request.POST)
    if not form.is_valid():
        return _people_page(request, form=form, status=422)
    try:
        person, password = services.add_person(
            username=form.cleaned_data["username"], role=form.cleaned_data["role"], actor=actor
        )
    except Problem as problem:
        put_into(form, problem)
        return _people_page(request, form=form, status=problem.status)
    return _people_page(request, form=PersonForm(), person=person, password=password)


@require_POST
def change_role(request: HttpRequest, person_id: int) -> HttpResponse:
    actor, person = require_admin(request), get_object_or_404(User, pk=person_id)
    try:
        services.change_role(person, role=request.POST.get("role", ""), actor=actor)
    except Problem as problem:
        messages.error(request, f"{problem.sentence} {problem.remedy}")
    else:
        messages.success(request, _("The role of %(name)s is changed.") % {"name": person.username})
    return redirect("accounts:people")


@require_POST
def deactivate_person(request: HttpRequest, person_id: int) -> HttpResponse:
    actor, person = require_admin(request), get_object_or_404(User, pk=person_id)
    try:
        services.deactivate_person(person, actor=actor)
    except Problem as problem:
        messages.error(request, f"{problem.sentence} {problem.remedy}")
    else:
        messages.success(request, _("%(name)s can no longer sign in.") % {"name": person.username})
    return redirect("accounts:people")


@require_POST
def reactivate_person(request: HttpRequest, person_id: int) -> HttpResponse:
    actor, person = require_admin(request), get_object_or_404(User, pk=person_id)
    services.reactivate_person(person, actor=actor)
    messages.success(request, _("%(name)s can sign in again.") % {"name": person.username})
    return redirect("accounts:people")


@never_cache
@require_POST
def reset_password(request: HttpRequest, person_id: int) -> HttpResponse:
    actor, person = require_admin(request), get_object_or_404(User, pk=person_id)
    password = services.reset_password(person, actor=actor)
    return _people_page(request, form=PersonForm(), person=person, password=password)


def _account_page(
    request: HttpRequest,
    *,
    password_form: PasswordForm | None = None,
    language_form: LanguageForm | None = None,
    status: int = 200,
) -> HttpResponse:
    user = cast(User, request.user)
    context = {
        "password_form": password_form or PasswordForm(),
        "language_form": language_form or LanguageForm(initial={"language": user.language or AS_THE_BROWSER}),
    }
    return render(request, "accounts/account.html", context, status=status)


def _tokens_page(request: HttpRequest, *, form: TokenForm, status: int = 200, **made: Any) -> HttpResponse:
    context = {"tokens": queries.tokens_of(cast(User, request.user)), "form": form, "now": timezone.now(), **made}
    return render(request, "accounts/tokens.html", context, status=status)


def _people_page(request: HttpRequest, *, form: PersonForm, status: int = 200, **made: Any) -> HttpResponse:
    context = {"people": queries.people(), "form": form, "roles": Role.choices, "is_people": True, **made}
    return render(request, "accounts/people.html", context, status=status)
