# SPDX-License-Identifier: Apache-2.0
"""Writes the environment and the arguments of each worker to FOLDER/<RANK>.json."""
import json
import os
import sys

with open(os.path.join(sys.argv[1], os.environ["RANK"] + ".json"), "w") as file:
    json.dump({"environment": dict(os.environ), "arguments": sys.argv[2:]}, file)
