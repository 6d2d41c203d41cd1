"""People: added, given a role, let go; their passwords and language."""

import secrets

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from controlplane.accounts.models import Role, User
from controlplane.core import events
from controlplane.core.errors import Conflict, Invalid

ONE_TIME_PASSWORD_BYTES = 12
USERNAME = RegexValidator(r"^[\w.@+-]{1,150}\Z")


def create_first_admin() -> str | None:
    """Make the user `admin` when there is nobody yet; returns the password to show once, or None."""
    with transaction.atomic():
        if User.objects.exists():
            return None
        password = _one_time_password()
        user = User.objects.create_user("admin", password=password, role=Role.ADMIN, is_staff=True, is_superuser=True)
        events.record("user.created", actor=events.SYSTEM, subject=user, role=Role.ADMIN)
    return password


def add_person(*, username: str, role: str, actor: str) -> tuple[User, str]:
    """A new person and the password to hand over, which works until they choose their own at the first sign-in."""
    username = User.normalize_username(username.strip())
    _check_role(role)
    try:
        USERNAME(username)
    except ValidationError:
        raise Invalid(
            _("“%(name)s” cannot be a user name.") % {"name": username[:150]},
            remedy=_("Use up to 150 letters, digits and @ . + - _"),
        ) from None
    password = _one_time_password()
    try:
        with transaction.atomic():
            user = User.objects.create_user(username, password=password, role=role, must_change_password=True)
            events.record("user.created", actor=actor, subject=user, role=role)
    except IntegrityError:
        raise Conflict(
            _("There is a person called %(name)s already.") % {"name": username},
            remedy=_("Choose another name, or let that person in again."),
        ) from None
    return user, password


def change_role(user: User, *, role: str, actor: str) -> bool:
    """Give `user` the role; False when they have it already. The last administrator keeps theirs."""
    _check_role(role)
    with transaction.atomic():
        person = _locked(user, loses_admin=role != Role.ADMIN)
        if person.role == role:
            return False
        before, person.role = person.role, role
        person.save(update_fields=["role"])
        events.record("user.role_changed", actor=actor, subject=person, before=before, after=role)
    return True


def deactivate_person(user: User, *, actor: str) -> bool:
    """Sign `user` out everywhere and refuse their tokens; False when they were out already. Events keep their name."""
    with transaction.atomic():
        person = _locked(user, loses_admin=True)
        if not person.is_active:
            return False
        person.is_active = False
        person.save(update_fields=["is_active"])
        events.record("user.deactivated", actor=actor, subject=person)
    return True


def reactivate_person(user: User, *, actor: str) -> bool:
    """Let a deactivated person in again, with the password and the tokens they had."""
    with transaction.atomic():
        won = User.objects.filter(pk=user.pk, is_active=False).update(is_active=True) == 1
        if won:
            events.record("user.reactivated", actor=actor, subject=user)
    return won


def change_password(user: User, *, old: str, new: str) -> None:
    """Replace one's own password. Raises Invalid when the old one is wrong or the new one too weak."""
    if not user.check_password(old):
        raise Invalid(_("That is not your present password."), remedy=_("Type the password you signed in with."))
    if old == new:
        raise Invalid(_("The new password is the old one."), remedy=_("Choose another."))
    try:
        validate_password(new, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), remedy=_("Choose a longer or less common one.")) from None
    with transaction.atomic():
        user.set_password(new)
        user.must_change_password = False
        user.save(update_fields=["password", "must_change_password"])
        events.record("user.password_changed", actor=user.username, subject=user)


def reset_password(user: User, *, actor: str) -> str:
    """Give a person who lost theirs a one-time password, returned to be shown once; open sessions end."""
    password = _one_time_password()
    with transaction.atomic():
        user.set_password(password)
        user.must_change_password = True
        user.save(update_fields=["password", "must_change_password"])
        events.record("user.password_reset", actor=actor, subject=user)
    return password


def set_language(user: User, *, language: str) -> None:
    """The language of `user`'s pages; "" follows the browser."""
    if language and language not in dict(settings.LANGUAGES):
        raise Invalid(_("There is no such language here."), remedy=_("Choose one of the list."))
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(language=language)
        events.record("user.language_changed", actor=user.username, subject=user, language=language)


def _locked(user: User, *, loses_admin: bool) -> User:
    """The person's row, locked together with every active administrator's, so that two admins cannot demote each other
    at the same moment. Raises Conflict when the installation would be left without one."""
    admins = User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True).order_by("pk")
    admin_ids = [admin.pk for admin in admins]
    if loses_admin and admin_ids == [user.pk]:
        raise Conflict(
            _("%(name)s is the last administrator.") % {"name": user.username},
            remedy=_("Make somebody else an administrator first."),
        )
    return User.objects.select_for_update().get(pk=user.pk)


def _check_role(role: str) -> None:
    if role not in Role.values:
        raise Invalid(_("There is no such role."), remedy=_("Choose viewer, operator or admin."))


def _one_time_password() -> str:
    return secrets.token_urlsafe(ONE_TIME_PASSWORD_BYTES)
