# SPDX-License-Identifier: Apache-2.0
"""Handles random numbers drawn during imports. After a cold start, generators without an explicit
seed differ between workers, and so do numbers drawn from them. Forked workers reseed these
generators. If a generator cannot be reseeded, the workers are started cold."""

import gc
import os
import random
import sys
import weakref

# Python's own wrappers for random bytes; the caller is further up the stack.
PASSED_ON = ("random", "secrets")
# Modules that may draw numbers, because their generators are reseeded or depend on the pid, or
# because the numbers only distinguish objects of one process, or are examples in docstrings.
# UUIDs are regenerated.
KNOWN = ("multiprocessing.process", "numpy.random", "tempfile", "uuid", "rich.style",
         "scipy.stats._distribution_infrastructure", "sympy.core.symbol")
TORCH_SEED = 67280421310721  # the seed of an unseeded torch.Generator()
UUID_BYTES = 16  # of uuid4()
DRAWN_SEED = 2 ** 32  # random seeds are larger than this, seeds typed by a user are smaller


def asker():
    """The module that requests random bytes."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals is not globals():
        name = frame.f_globals.get("__name__") or ""
        if name not in PASSED_ON and not name.startswith("importlib."):
            return name
        frame = frame.f_back
    return ""


class Randomness:
    """Records, between watch() and unwatch(), which modules draw numbers and which generators need
    seeding."""

    def __init__(self):
        self.drawers = []
        self.unseeded = weakref.WeakSet()  # instances of random.Random
        self.unseeded.add(random._inst)
        self.state = None  # state of the random module's generator, if it was seeded
        self.uuids = []  # the bytes drawn for UUIDs
        self.kept_uuids = []  # (a module's namespace, variable name, UUID bytes)
        self.temporary = []  # (folder, a part of the file name) that tempfile has chosen
        process = sys.modules.get("multiprocessing.process")  # imported by Python's startup
        self.keys = [process.current_process().authkey] if process else []  # keys drawn

    def note_draw(self, name):
        if not name.startswith(KNOWN):
            self.drawers.append(name)

    def note_temporary(self, drawn):
        """Called by random.choices. Records a name that tempfile draws for a file or a directory,
        but not the names that it draws while it searches for a writable directory. Python 3.9 does
        not call random.choices."""
        frame = sys._getframe(2)
        if frame.f_globals.get("__name__") == "tempfile" and frame.f_code.co_name == "__next__":
            folder = frame.f_back.f_locals.get("dir")
            if frame.f_back.f_code.co_name != "_get_default_tempdir" and folder:
                self.temporary.append((os.path.abspath(os.fsdecode(folder)), "".join(drawn)))

    def watch(self):
        kind, instance = random.Random, random._inst
        urandom, getrandom = os.urandom, os.getrandom
        seed, setstate = kind.seed, kind.setstate
        draw, bits, choices = kind.random, kind.getrandbits, kind.choices

        def watched_urandom(size):
            drawn, name = urandom(size), asker()
            self.note_draw(name)
            if name == "uuid" and size == UUID_BYTES:
                self.uuids.append(drawn)
            elif name == "multiprocessing.process":
                self.keys.append(drawn)
            return drawn

        def watched_getrandom(size, flags=0):
            self.note_draw(asker())
            return getrandom(size, flags)

        def watched_seed(self_, a=None, version=2):
            seed(self_, a, version)
            if a is None and asker() != "tempfile":
                self.unseeded.add(self_)
            else:
                self.unseeded.discard(self_)

        def watched_setstate(self_, state):
            setstate(self_, state)
            self.unseeded.discard(self_)

        def watched_draw(self_):
            if self_ in self.unseeded:
                self.note_draw(asker())
            return draw(self_)

        def watched_bits(self_, k):
            if self_ in self.unseeded:
                self.note_draw(asker())
            return bits(self_, k)

        def watched_choices(self_, *args, **kwargs):
            drawn = choices(self_, *args, **kwargs)
            self.note_temporary(drawn)
            return drawn

        def unwatch():
            os.urandom = random._urandom = urandom
            os.getrandom = getrandom
            kind.seed, kind.setstate, kind.choices = seed, setstate, choices
            del kind.random, kind.getrandbits
            rebind()

        def rebind():
            for name in ("seed", "setstate", "random", "getrandbits"):
                setattr(random, name, getattr(instance, name))

        os.urandom = random._urandom = watched_urandom
        os.getrandom = watched_getrandom
        kind.seed, kind.setstate = watched_seed, watched_setstate
        kind.random, kind.getrandbits = watched_draw, watched_bits
        kind.choices = watched_choices
        rebind()
        self.unwatch = unwatch

    def why_not_fork(self):
        if self.drawers:
            return ("has drawn random numbers (in %s), which all workers would share" %
                    (self.drawers[0] or "a compiled module"))
        for folder, name in self.temporary:
            if any(name in each for each in names_in(folder)):
                return "has created a temporary file or directory, which all workers would share"
        self.temporary = []
        return None

    def why_not_fork_at_end(self):
        if numpy_generator() == "used":
            return "has used numpy.random, whose numbers all workers would share"
        return self.shared_uuid() or torch_was_seeded()

    def shared_uuid(self):
        """Returns a reason not to fork if a UUID cannot be regenerated because no module has it as
        a global variable; None otherwise."""
        if not self.uuids:
            return None
        drawn = {uuid_of(each).int for each in self.uuids}
        kind = sys.modules["uuid"].UUID
        found = [each for each in gc.get_objects() if type(each) is kind and each.int in drawn]
        kept = {id(value) for module in list(sys.modules.values())
                for value in list(getattr(module, "__dict__", {}).values())} if found else ()
        if all(id(each) in kept for each in found):
            return None
        return "has generated a UUID, which all workers would share"

    def settle(self):
        """Called after imports, perhaps several times. Determines what a worker must reseed."""
        self.state = None if random._inst in self.unseeded else random.getstate()
        self.is_numpy_fresh = numpy_generator() == "fresh"
        self.kept_uuids = [(vars(module), name, drawn) for drawn in self.uuids
                           for module in list(sys.modules.values())
                           for name, value in list(getattr(module, "__dict__", {}).items())
                           if holds_uuid(value, uuid_of(drawn))]

    def begin_again(self):
        """Reseeds the generators in a worker."""
        if self.state is not None:
            random.setstate(self.state)
        for each in list(self.unseeded):
            each.seed()
        if self.is_numpy_fresh:
            sys.modules["numpy.random"].seed()
        torch = torch_generator()
        if torch is not None and torch.initial_seed() >= DRAWN_SEED:
            torch.seed()
        process = sys.modules.get("multiprocessing.process")
        # Skip this if a module has set its own key.
        if process and process.current_process().authkey in self.keys:
            process.current_process().authkey = os.urandom(32)
        drawn = {old: uuid_of(os.urandom(16)) for old in self.uuids}
        for names, name, old in self.kept_uuids:
            names[name] = with_uuid(names[name], uuid_of(old), drawn[old])


def names_in(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def uuid_of(drawn):
    return sys.modules["uuid"].UUID(bytes=drawn, version=4)


def holds_uuid(value, uuid):
    if type(value) is str:
        return len(value) >= 32 and (uuid.hex in value or str(uuid) in value)
    return type(value) is type(uuid) and value == uuid


def with_uuid(value, old, new):
    if type(value) is str:
        return value.replace(old.hex, new.hex).replace(str(old), str(new))
    return new


def numpy_generator():
    """The state of numpy's global generator: "fresh", "used", "seeded" by a module, or "none"."""
    own = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
    generator = getattr(own, "_bit_generator", None)
    seeds = getattr(generator, "_seed_seq", None)
    if generator is None or seeds is None:
        return "none" if own is None else "seeded"
    fresh, now = type(generator)(seeds).state["state"], generator.state["state"]
    same = fresh["pos"] == now["pos"] and (fresh["key"] == now["key"]).all()
    return "fresh" if same else "used"


def torch_generator():
    """torch's default generator, which torch seeds with random bits during import."""
    return getattr(sys.modules.get("torch"), "default_generator", None)


def torch_was_seeded():
    """The reason not to fork if a module has seeded one of torch's other generators, else None.
    Unseeded generators start with a fixed seed."""
    kind = getattr(sys.modules.get("torch"), "Generator", None)
    if kind is None:
        return None
    own = torch_generator()
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if type(value) is kind and value is not own and \
                    value.initial_seed() >= DRAWN_SEED and value.initial_seed() != TORCH_SEED:
                return ("has seeded %s.%s, whose numbers all workers would share" %
                        (module.__name__, name))
    return None
