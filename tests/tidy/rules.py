# SPDX-License-Identifier: Apache-2.0
"""The house rules as data: limits, banned words, and the exceptions with their reasons."""

SOURCE_LINES_MAX = 500
TEST_LINES_MAX = 700
HEADER_LINES_MAX = 200
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 5
NESTING_MAX = 4
LINE_COLUMNS_MAX = 100
README_LINES_MAX = 120
HEADER_COMMENT_LINES_MAX = 14

# (rule, path): reason. A rule's name is the word in brackets at the end of its message.
EXCEPTIONS = {
    ('function', 'tests/fakes/cuda/api_module.cpp'): "cuLaunchKernel's signature is CUDA's",
    ('function', 'tests/fakes/nccl/api_operations.cpp'): "the signatures are NCCL's",
    ('lines', 'README.md'): 'the front door: the tables of figures and codes belong there',
    ('words', 'tests/support/puppet.cpp'): 'a worker that hangs or works for a while is its job',
}

LAUNCHER = ('lib/', 'rendezvous/', 'apps/muster/', 'apps/muster-store/', 'apps/musterctl/')
OURS = ('lib/', 'rendezvous/', 'apps/')
CPP = OURS + ('tests/', 'examples/')
TESTS = ('tests/',)

# (pattern in code without comments and strings, where, except in, why).
BANNED = (
    (r'\bthrow\b', OURS, (), 'errors are values (Result); foreign exceptions are only caught'),
    (r'\b(?:secure_)?getenv\b', OURS, (), 'the environment is taken once, as an Environ'),
    (r'\bstd::(?:j?thread|(?:\w+_)?mutex|atomic\w*|condition_variable\w*|async)\b'
     r'|\bpthread_create\b', LAUNCHER,
     ('lib/collective/', 'lib/process/death_', 'lib/base/futex', 'lib/base/life_page'),
     'the launcher and the server have one thread'),
    (r'\bdetached\b', CPP, (), 'asio::detached swallows exceptions'),
    (r'\bsystem_clock::now\b|\bsteady_clock::now\b|\bclock_gettime\b|\bgettimeofday\b', OURS,
     ('lib/base/clock.cpp', 'apps/muster-bench/'), 'time comes from base/clock.hpp'),
    (r'(?<!ares_)\bgetaddrinfo\b|\bgethostbyname\w*|\bgetnameinfo\b|\bip::tcp::resolver\b', CPP, (),
     'names are resolved by io/resolver.hpp; nothing is resolved backwards'),
    (r'\bsleep_for\b|\bsleep_until\b|\busleep\b|\bnanosleep\b|(?<![\w.])sleep\s*\(',
     LAUNCHER + TESTS, (), 'wait for the event itself, with a deadline'),
    (r'\brand\s*\(|\bsrand\b|\brandom_device\b', OURS, (), 'randomness is handed in with a seed'),
    (r'\bsystem\s*\(|\bpopen\s*\(', OURS, (), 'no shell: start programs by argv'),
)
