# SPDX-License-Identifier: Apache-2.0
"""Calls a function as soon as the program imports a module. muster_torch_flights and
muster_jax_cluster change modules in this way. This is a separate module that imports almost
nothing, because every Python process of such a job uses it."""
import sys


def when_imported(name, call):
    """Calls call(module): now if the module with this name is loaded, else once it is loaded."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        call(loaded)
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder:
    """Delegates the lookup of one module to the other finders."""

    def __init__(self, name, call):
        self._name = name
        self._call = call

    def find_spec(self, name, path, target=None):
        if name != self._name:
            return None
        import importlib.util
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader = spec.loader if spec is not None else None
        if loader is not None:
            load = loader.exec_module

            def exec_module(module):
                load(module)
                self._call(module)
            loader.exec_module = exec_module
        return spec
