"""The Django application of django-layers-2013: a template, alone or with a row of auth_user.

    python3 django_2013.py     makes the tables and a thousand users in DATABASE, a file

LAYER is "template" or "row". As Django 1.5 did by default, each request reads and compiles the
template and opens a connection to the database; CACHED=1 keeps both.
"""

import os
from pathlib import Path

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection
from django.http import HttpResponse
from django.template.loader import get_template
from django.urls import path

CACHED = os.environ.get("CACHED") == "1"
FILES = "django.template.loaders.filesystem.Loader"

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("DATABASE", ""),
        "CONN_MAX_AGE": None if CACHED else 0,
    }},
    DEBUG=False,
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
    LOGGING_CONFIG=None,
    ROOT_URLCONF=__name__,
    SECRET_KEY="not a secret: nothing is signed",
    TEMPLATES=[{
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
        "OPTIONS": {
            "loaders": [("django.template.loaders.cached.Loader", [FILES]) if CACHED else FILES],
        },
    }],
)
django.setup()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.contenttypes.models import ContentType  # noqa: E402


def template(request):
    return HttpResponse(get_template("hello.txt").render({"name": "World"}))


def row(request):
    # mod_python passes a thread's state on to other threads, and so the connection, which Django
    # would refuse. Requests come one at a time, so no two threads use it at once.
    if not connection.allow_thread_sharing:
        connection.inc_thread_sharing()
    user = User.objects.get(username="World")
    return HttpResponse(get_template("hello.txt").render({"name": user.username}))


urlpatterns = [path("", row if os.environ.get("LAYER") == "row" else template)]

app = get_wsgi_application()


def prepare():
    """Create the tables of django.contrib.auth and a thousand users, one of whom is queried."""
    with connection.schema_editor() as editor:
        for model in (ContentType, Permission, Group, User):
            editor.create_model(model)
    names = ["World"] + ["user %d" % number for number in range(999)]
    User.objects.bulk_create([User(username=name) for name in names])


if __name__ == "__main__":
    prepare()
