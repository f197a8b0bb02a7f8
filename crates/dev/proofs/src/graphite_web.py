"""Answers queries with the real graphite-web over whisper files.

Reads {"start", "step", "now", "series": {name: [value or null]}, "queries": [{…}]} on standard
input; each query has the parameters of /render. Writes one answer per query, as JSON: the series,
or {"error": …}; with "repeats": N in the input, the seconds of each of N repetitions instead, and
the number of values.
"""
import json, os, sys, time, warnings

warnings.simplefilter("ignore")
folder = sys.argv[1]
asked = json.load(sys.stdin)
os.makedirs(os.path.join(folder, "storage", "log"), exist_ok=True)
os.makedirs(os.path.join(folder, "whisper"), exist_ok=True)
with open(os.path.join(folder, "settings_here.py"), "w") as settings:
    settings.write(f"""
from graphite.settings import *
SECRET_KEY = 'none'
STORAGE_DIR = {folder!r} + '/storage'
LOG_DIR = {folder!r} + '/storage/log'
INDEX_FILE = {folder!r} + '/storage/index'
WHISPER_DIR = {folder!r} + '/whisper'
STANDARD_DIRS = [WHISPER_DIR]
DATABASES = {{'default': {{'ENGINE': 'django.db.backends.sqlite3', 'NAME': {folder!r} + '/storage/db'}}}}
TIME_ZONE = 'UTC'
CARBONLINK_HOSTS = []
CLUSTER_SERVERS = []
MEMCACHE_HOSTS = []
DEFAULT_CACHE_DURATION = 0
CACHES = {{'default': {{'BACKEND': 'django.core.cache.backends.dummy.DummyCache'}}}}
ALLOWED_HOSTS = ['*']
AUTOCOMPRESS_GAPS_IN_DERIVATIVE_FUNCTIONS = False
LOG_ROTATION = False
""")
sys.path.insert(0, folder)
os.environ["DJANGO_SETTINGS_MODULE"] = "settings_here"
# graphite-web reports its start on standard output.
answers, sys.stdout = sys.stdout, sys.stderr
import django

django.setup()
from django.core.management import call_command

call_command("migrate", run_syncdb=True, verbosity=0)
import whisper
from django.test import Client
from graphite.storage import STORE
from graphite.tags.utils import TaggedSeries

start, step, now = asked["start"], asked["step"], asked["now"]
for name, values in asked["series"].items():
    path = TaggedSeries.encode(name, sep=os.sep) if ";" in name else name.replace(".", os.sep)
    path = os.path.join(folder, "whisper", path + ".wsp")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    whisper.create(path, [(step, (now - start) // step + 10)], xFilesFactor=0)
    points = [(start + i * step, value) for i, value in enumerate(values) if value is not None]
    whisper.update_many(path, points, now=now)
    if ";" in name:
        STORE.tagdb.tag_series(name)
client = Client()
found = []
for query in asked["queries"] if "repeats" in asked else []:
    seconds = []
    for _ in range(asked["repeats"]):
        start = time.perf_counter()
        response = client.get("/render/", dict(query, format="json", now=str(now)))
        content = response.content
        seconds.append(time.perf_counter() - start)
    values = sum(len(series["datapoints"]) for series in json.loads(content))
    found.append({"seconds": seconds, "values": values})
for query in [] if "repeats" in asked else asked["queries"]:
    try:
        response = client.get("/render/", dict(query, format="json", now=str(now)))
        if response.status_code == 200:
            found.append(json.loads(response.content))
        else:
            found.append({"error": response.content.decode()[:300]})
    except Exception as error:
        found.append({"error": f"{type(error).__name__}: {error}"})
json.dump(found, answers)
