# SPDX-License-Identifier: Apache-2.0
"""A small server, as a WSGI application for gunicorn: a master process and its workers, as
inference servers have a front end and engines. Answers each request with who has served it."""

import json
import os


def app(environ, start_response):
    names = ("RANK", "MUSTER_PORTS", "TORCHELASTIC_RESTART_COUNT")
    answer = {"pid": os.getpid(), "master": os.getppid(), "path": environ["PATH_INFO"]}
    answer.update({name.lower(): os.environ.get(name) for name in names})
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode() + b"\n"]
