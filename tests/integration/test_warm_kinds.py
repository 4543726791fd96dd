# SPDX-License-Identifier: Apache-2.0
"""--warm: more kinds of effects of a module's import (see test_warm_effects.py). Each table has one
kind in each entry: what the module does, and an expression of the program that shows it. The
expression has the same value in a cold and a warm worker, and another value without the effect."""
from warm_case import EffectCase

PRCTL = "ctypes.CDLL(None).prctl"

OF_PROCESS = {
    "umask": ("os.umask(0o077)", "os.umask(0)"),
    "priority": ("os.nice(3)", "os.nice(0)"),
    "scheduling policy": ("os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
                          "os.sched_getscheduler(0)"),
    "resource limit": ("resource.setrlimit(resource.RLIMIT_NOFILE, (333, 333))",
                       "resource.getrlimit(resource.RLIMIT_NOFILE)"),
    "signal mask": ("signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})",
                    "sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))"),
    "signal handler": ("def handler(*_): pass\nsignal.signal(signal.SIGTERM, handler)",
                       "getattr(signal.getsignal(signal.SIGTERM), '__name__', None)"),
    "default signal action": ("signal.signal(signal.SIGPIPE, signal.SIG_DFL)",
                              "signal.getsignal(signal.SIGPIPE)"),
    "ignored signal": ("signal.signal(signal.SIGUSR2, signal.SIG_IGN)",
                       "signal.getsignal(signal.SIGUSR2)"),
    "signal wakeup descriptor": (
        "wakeup = os.open('/dev/null', os.O_WRONLY | os.O_NONBLOCK)\nsignal.set_wakeup_fd(wakeup)",
        "signal.set_wakeup_fd(-1) == getattr(effect, 'wakeup', None)"),
    "crash handler": ("faulthandler.enable()", "faulthandler.is_enabled()"),
    "time zone": ("os.environ['TZ'] = 'MUS-9'\ntime.tzset()", "time.localtime(0).tm_hour"),
    "process name": (f"{PRCTL}(15, b'by-import', 0, 0, 0)", "open('/proc/self/comm').read()"),
    "timer slack": (f"{PRCTL}(29, 12345, 0, 0, 0)", f"{PRCTL}(30, 0, 0, 0, 0)"),
    "no new privileges": (f"{PRCTL}(38, 1, 0, 0, 0)", f"{PRCTL}(39, 0, 0, 0, 0)"),
    "out-of-memory score": (
        "with open('/proc/self/oom_score_adj', 'w') as file: file.write('77')",
        "open('/proc/self/oom_score_adj').read()"),
    "generator of the C library": ("ctypes.CDLL(None).srand(7)", "ctypes.CDLL(None).rand()"),
    "shared library": ("library = ctypes.CDLL('libresolv.so.2')",
                       "'libresolv' in open('/proc/self/maps').read()"),
    "private memory": ("memory = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE)\nmemory[:3] = b'abc'",
                       "hasattr(effect, 'memory') and effect.memory[:3]"),
    "file mapped for reading": (
        "with open(__file__) as file:\n"
        "    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)",
        "hasattr(effect, 'mapped') and effect.mapped[:9]"),
    "directory descriptor": ("folder = os.open('/proc/self', os.O_RDONLY)",
                             "hasattr(effect, 'folder') and 'fd' in os.listdir(effect.folder)"),
    "path descriptor": ("path = os.open('/', os.O_PATH)",
                        "hasattr(effect, 'path') and os.readlink(f'/proc/self/fd/{effect.path}')"),
}

OF_PYTHON = {
    "exit functions": ("for number in (1, 2): atexit.register(print, 'exit functions:', number)",
                       "atexit.register(print, 'exit functions: 3') and ''"),
    "finalizer": ("class Final: pass\n"
                  "final = Final()\nweakref.finalize(final, print, 'finalizer: called')", "''"),
    "collector": ("gc.disable()", "gc.isenabled()"),
    "collector thresholds": ("gc.set_threshold(7, 5)", "gc.get_threshold()[:2]"),
    "collector callbacks": ("gc.callbacks.append(lambda *_: None)", "len(gc.callbacks)"),
    "recursion limit": ("sys.setrecursionlimit(777)", "sys.getrecursionlimit()"),
    "switch interval": ("sys.setswitchinterval(0.5)", "sys.getswitchinterval()"),
    "flags of dlopen": ("sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)",
                        "sys.getdlopenflags()"),
    "traceback limit": ("sys.tracebacklimit = 3", "getattr(sys, 'tracebacklimit', None)"),
    "bytecode cache": ("sys.pycache_prefix = '/by/import'", "sys.pycache_prefix"),
    "module path": ("sys.path.insert(0, '/of/import')\nsys.path.append('/behind')",
                    "(sys.path[:2], sys.path[-1])"),
    "module finders": (
        "class Finder:\n    def find_spec(self, *_): return None\n"
        "sys.meta_path.insert(0, Finder())",
        "[getattr(each, '__name__', type(each).__name__) for each in sys.meta_path"
        " if type(each).__module__ != 'muster_zygote']"),
    "path hooks": ("def hook(path): raise ImportError\nsys.path_hooks.append(hook)",
                   "[each.__name__ for each in sys.path_hooks]"),
    "module alias": ("sys.modules['alias'] = json", "'alias' in sys.modules"),
    "blocked module": ("sys.modules['wave'] = None", "sys.modules.get('wave', 'not imported')"),
    "builtins": ("builtins.by_import = 1", "getattr(builtins, 'by_import', None)"),
    "patched function": ("json.dumps = lambda value: 'patched'", "json.dumps([])"),
    "codec": ("codecs.register(lambda name: codecs.lookup('rot13') if name == 'own' else None)",
              "hasattr(effect, 'Final') and codecs.encode('a', 'own')"),
    "codec error handler": ("codecs.register_error('strict', codecs.ignore_errors)",
                            "codecs.lookup_error('strict').__name__"),
    "pickling": ("copyreg.pickle(Final, lambda _: 'final')",
                 "getattr(effect, 'Final', None) in copyreg.dispatch_table"),
    "exception hook": ("def own(*_): pass\nsys.excepthook = own", "sys.excepthook.__name__"),
    "thread exception hook": ("threading.excepthook = own", "threading.excepthook.__name__"),
    "unraisable hook": ("sys.unraisablehook = own", "sys.unraisablehook.__name__"),
    "display hook": ("sys.displayhook = own", "sys.displayhook.__name__"),
    "breakpoint hook": ("sys.breakpointhook = own", "sys.breakpointhook.__name__"),
    "audit hook": ("audited = []\n"
                   "sys.addaudithook(lambda name, _: name == 'own' and audited.append(name))",
                   "sys.audit('own') or getattr(effect, 'audited', None)"),
    "trace of threads": ("threading.settrace(own)", "threading._trace_hook is not None"),
    "coroutine origins": ("sys.set_coroutine_origin_tracking_depth(3)",
                          "sys.get_coroutine_origin_tracking_depth()"),
    "asynchronous generator hooks": ("sys.set_asyncgen_hooks(own)",
                                     "sys.get_asyncgen_hooks().firstiter is not None"),
    "memory tracing": ("tracemalloc.start(3)", "tracemalloc.is_tracing()"),
    "thread-local value": ("local = threading.local()\nlocal.value = 1",
                           "hasattr(effect, 'local') and effect.local.value"),
    "locked lock": ("lock = threading.RLock()\nlock.acquire()",
                    "hasattr(effect, 'lock') and effect.lock._is_owned()"),
    "thread name": ("threading.current_thread().name = 'by import'",
                    "threading.current_thread().name"),
    "fork hook": (
        "forked = []\nos.register_at_fork(before=lambda: forked.append(os.getpid()))",
        "os.waitpid(os.fork() or os._exit(0), 0)[1],"
        " getattr(effect, 'forked', [])[-1:] == [os.getpid()]"),
}

OF_LIBRARIES = {
    "warning filters": ("warnings.simplefilter('error', UserWarning)", "warnings.filters[0]"),
    "locale": ("locale.setlocale(locale.LC_ALL, 'C')", "locale.setlocale(locale.LC_ALL)"),
    "context variable": ("variable = contextvars.ContextVar('own')\nvariable.set(1)",
                         "hasattr(effect, 'variable') and effect.variable.get(0)"),
    "decimal context": ("decimal.getcontext().prec = 5", "decimal.Decimal(1) / 3"),
    "socket timeout": ("socket.setdefaulttimeout(3)", "socket.getdefaulttimeout()"),
    "log level": ("logging.getLogger().setLevel(17)", "logging.getLogger().level"),
    "log level names": ("logging.addLevelName(17, 'OWN')", "logging.getLevelName(17)"),
    "log records": ("class Record(logging.LogRecord): pass\nlogging.setLogRecordFactory(Record)",
                    "logging.getLogRecordFactory().__name__"),
    "disabled logs": ("logging.disable(17)", "logging.root.manager.disable"),
    "captured warnings": ("logging.captureWarnings(True)", "warnings.showwarning.__module__"),
    "start method": ("multiprocessing.set_start_method('forkserver')",
                     "multiprocessing.get_start_method()"),
    "authentication key": ("multiprocessing.current_process().authkey = b'own'",
                           "multiprocessing.current_process().authkey == b'own'"),
    "thread pool": ("from concurrent import futures\n"
                    "pool = futures.ThreadPoolExecutor(1)",
                    "hasattr(effect, 'pool') and effect.pool.submit(int).result()"),
    "seeded generator": ("random.seed(3)", "random.getstate() == random.Random(3).getstate()"),
    "directory for temporary files": ("tempfile.tempdir = '/by/import'", "tempfile.gettempdir()"),
    "opener of addresses": ("urllib.request.install_opener(urllib.request.OpenerDirector())",
                            "urllib.request._opener is not None"),
}

class Kinds(EffectCase):
    def test_of_the_process(self):
        self.assert_kinds("ctypes, faulthandler, mmap, resource, signal, time", OF_PROCESS)

    def test_of_python(self):
        self.assert_kinds("atexit, builtins, codecs, copyreg, gc, json, threading, tracemalloc, "
                          "weakref", OF_PYTHON)

    def test_of_libraries(self):
        self.assert_kinds("contextvars, decimal, locale, logging, multiprocessing, random, socket, "
                          "tempfile, urllib.request, warnings", OF_LIBRARIES)
