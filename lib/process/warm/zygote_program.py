# SPDX-License-Identifier: Apache-2.0
"""The program as its worker will see it: its sys.path[0], its own modules, and the values (such as
sys.argv) that modules can read during import. This is the first part of the zygote's source."""

import sys

# Modules loaded by Python's startup, before a worker searches its program's directory.
OF_PYTHON = frozenset(sys.modules)
if sys.path and sys.path[0] == "":
    del sys.path[0]  # added for -c; the imports below must not use the current directory

import ast
import importlib.machinery
import os
import pkgutil
import types

# Finders that take precedence over files, so that no file can shadow their modules.
COME_FIRST = (importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter)


class OwnModule(BaseException):
    """An import of one of the program's own modules. Not an Exception, because `try: import x`
    would swallow it and continue without the module. In a cold start the import would succeed."""


class Program:
    """The program as specified on the command line."""

    def __init__(self, kind, name, args):
        self.kind, self.name, self.args = kind, name, args
        self.entry = self.path_entry()
        self.source = self.find_source()
        self.argv = list(sys.argv)  # sys.argv as this class last set it
        self.reached = []  # the program's own modules that an import has requested

    def path_entry(self):
        """The program's own entry in sys.path; None if it has none."""
        if self.kind == "script" and pkgutil.get_importer(self.name) is not None:
            return self.name  # a directory or an archive with a __main__
        if getattr(sys.flags, "safe_path", False):
            return None
        if self.kind == "script":
            return os.path.dirname(os.path.realpath(self.name))
        try:
            return os.getcwd()
        except OSError:
            return None

    def find_source(self):
        """The file that becomes __main__; None if it is not a regular file."""
        if self.kind == "script":
            return self.absolute() if os.path.isfile(self.name) else None
        spec = self.find(self.name.partition(".")[0])
        if spec is None and "." not in self.name:
            spec = importlib.machinery.PathFinder.find_spec(self.name)
        return spec.origin if spec and spec.has_location else None

    def absolute(self):
        return os.path.join(os.getcwd(), self.name)

    def find(self, name):
        if self.entry is None:
            return None
        try:
            return importlib.machinery.PathFinder.find_spec(name, [self.entry])
        except (ImportError, ValueError):
            return None

    def owns(self, name):
        """True if a worker finds this module in the program's directory. It then belongs to the
        user and may change between attempts."""
        top = name.partition(".")[0]
        if any(finder.find_spec(top) for finder in COME_FIRST):
            return False
        spec = self.find(top)
        if spec is None or spec.has_location:
            return spec is not None
        # A directory without __init__.py counts only if no other entry has a module of that name.
        others = [entry for entry in sys.path if entry != self.entry]
        elsewhere = importlib.machinery.PathFinder.find_spec(top, others)
        return elsewhere is None or not elsewhere.has_location

    def find_spec(self, name, path=None, target=None):
        """The hook in sys.meta_path, which is inserted before the file finder."""
        if path is None and self.owns(name):
            self.reached.append(name)
            raise OwnModule(name)
        return None

    def enter(self):
        """Call before the imports. From then on, modules see the values of a worker."""
        if self.entry is not None:
            sys.path.insert(0, self.entry)
        first = self.source or self.name if self.kind == "module" else self.name
        self.set_argv([first, *self.args])
        names = new_main()
        if self.source is not None:
            names["__file__"] = self.source
        if self.source is not None and self.kind == "script":
            names["__cached__"] = None
            names["__loader__"] = importlib.machinery.SourceFileLoader("__main__", self.source)

    def set_argv(self, argv):
        """Updates sys.argv in place, because modules may keep a reference to it. Leaves it alone if
        an import has changed it."""
        if sys.argv == self.argv:
            sys.argv[:] = self.argv = argv

    def hide_own_modules(self):
        finders = sys.meta_path
        files = importlib.machinery.PathFinder
        finders.insert(finders.index(files) if files in finders else len(finders), self)

    def show_own_modules(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def why_not_fork(self):
        if self.reached:
            return "needs %s, which is in the program's directory" % self.reached[0]
        return None

    def why_not_begin(self):
        """The reason why no worker may be forked even before the imports, or None. The program's
        own modules may shadow modules that the zygote has used."""
        for name in sorted(set(sys.modules) - OF_PYTHON - {"__main__"}):
            if "." not in name and self.owns(name):
                return ("%s, in the program's directory, has the same name as a Python module" %
                        name)
        return None

    def imports(self):
        """The program's top-level imports as (module, names imported from it)."""
        if self.source is None:
            return []
        try:
            with open(self.source, "rb") as file:
                return top_level_imports(file.read())
        except OSError:
            return []


def new_main():
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    if sys.version_info < (3, 14):
        main.__dict__["__annotations__"] = {}
    sys.modules["__main__"] = main
    return main.__dict__


def top_level_imports(source):
    """The absolute top-level imports of a program, in order, as (module, names imported from it).
    Empty if the program cannot be parsed; its worker reports the reason."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    names = []
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            names += [(alias.name, ()) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
            names.append((statement.module, tuple(alias.name for alias in statement.names)))
    return list(dict.fromkeys(names))
