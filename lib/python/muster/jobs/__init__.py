# SPDX-License-Identifier: Apache-2.0
"""Runs functions as jobs: muster.launch and muster.notebook_launcher."""
from .errors import JobError, WorkerError
from .launching import launch
from .notebook import notebook_launcher

__all__ = ["JobError", "WorkerError", "launch", "notebook_launcher"]
