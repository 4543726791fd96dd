# SPDX-License-Identifier: Apache-2.0
"""A small WSGI server for gunicorn: a master process and its workers, like the front end and
engines of an inference server. Each response identifies the process that served the request."""

import json
import os


def app(environ, start_response):
    names = ("RANK", "MUSTER_PORTS", "TORCHELASTIC_RESTART_COUNT")
    answer = {"pid": os.getpid(), "master": os.getppid(), "path": environ["PATH_INFO"]}
    answer.update({name.lower(): os.environ.get(name) for name in names})
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode() + b"\n"]
