"""A Django application of a few routes, one for each layer of the django-layers experiment.

    python3 django_layers.py     makes the table and its rows, where DATABASE names a database

DATABASE is empty, sqlite:PATH or postgresql:FOLDER-OF-ITS-SOCKET.
"""

import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, models
from django.http import HttpResponse
from django.template import engines
from django.urls import path


def databases(text):
    kind, _, place = text.partition(":")
    if kind == "sqlite":
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": place}
    elif kind == "postgresql":
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres", "USER": "postgres", "HOST": place,
        }
    else:
        return {}
    # Each thread keeps its own connection.
    return {"default": dict(database, CONN_MAX_AGE=None)}


settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES=databases(os.environ.get("DATABASE", "")),
    DEBUG=False,
    LOGGING_CONFIG=None,
    ROOT_URLCONF=__name__,
    SECRET_KEY="not a secret: nothing is signed",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
)
django.setup()

TEMPLATE = engines["django"].from_string("Hello {{ name }}!")


class User(models.Model):
    name = models.CharField(max_length=40, unique=True)

    class Meta:
        app_label = "layers"


def string(request):
    return HttpResponse("Hello World!")


def template(request):
    return HttpResponse(TEMPLATE.render({"name": "World"}))


def database(request):
    user = User.objects.get(name="World")
    return HttpResponse(TEMPLATE.render({"name": user.name}))


urlpatterns = [
    path("string", string),
    path("template", template),
    path("database", database),
]

app = get_wsgi_application()


def prepare():
    """Create the table of a thousand users, one of whom is queried."""
    if not settings.DATABASES:
        return
    with connection.schema_editor() as editor:
        editor.create_model(User)
    names = ["World"] + ["user %d" % number for number in range(999)]
    User.objects.bulk_create([User(name=name) for name in names])


if __name__ == "__main__":
    prepare()
