# SPDX-License-Identifier: Apache-2.0
"""Prints the state of its process and of Python that a module may have changed."""

import effect
import gc
import locale
import os
import resource
import signal
import sys
import threading
import warnings

mask = os.umask(0)
os.umask(mask)
print("umask", mask, "nice", os.nice(0))
print("descriptors", resource.getrlimit(resource.RLIMIT_NOFILE))
print("blocked", sorted(int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])))
for name in ("SIGTERM", "SIGPIPE", "SIGINT"):
    print(name, getattr(signal.getsignal(getattr(signal, name)), "__name__", "default"))
print("hook", sys.excepthook.__name__)
print("path", sys.path[:2], sys.path[-1])
print("finders", [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path
                  if type(each).__module__ != "muster_zygote"])
print("warnings", warnings.filters[0])
print("locale", locale.setlocale(locale.LC_ALL))
print("collector", gc.isenabled(), gc.get_threshold()[:2])
print("limits", sys.getrecursionlimit(), sys.getswitchinterval())
print("own", getattr(getattr(effect, "own", None), "seen", None))
print("threads", threading.active_count())
