"""The application of the flask-gunicorn-nginx experiment: one route, twelve bytes."""

from flask import Flask

app = Flask(__name__)


@app.route("/")
def hello():
    return "Hello there!"
