"""Reads about people and tokens."""

from django.db.models import QuerySet

from controlplane.accounts.models import ApiToken, User


def people() -> QuerySet[User]:
    """Everybody, the active ones first."""
    return User.objects.order_by("-is_active", "username")


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """The person's API tokens, newest first; revoked and expired ones included."""
    return ApiToken.objects.filter(user=user)
