from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.urls import path

from controlplane.accounts.views import settings_pages as pages
from controlplane.accounts.views.signing_in import Login

app_name = "accounts"
urlpatterns = [
    path("login/", login_not_required(Login.as_view()), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("", pages.account, name="settings"),
    path("password/", pages.change_password, name="change_password"),
    path("language/", pages.change_language, name="change_language"),
    path("tokens/", pages.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke/", pages.revoke_token, name="revoke_token"),
    path("people/", pages.people, name="people"),
    path("people/<int:person_id>/role/", pages.change_role, name="change_role"),
    path("people/<int:person_id>/deactivate/", pages.deactivate_person, name="deactivate_person"),
    path("people/<int:person_id>/reactivate/", pages.reactivate_person, name="reactivate_person"),
    path("people/<int:person_id>/reset-password/", pages.reset_password, name="reset_password"),
]
