from django.urls import URLPattern

app_name = "configs"
urlpatterns: list[URLPattern] = []
