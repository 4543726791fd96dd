# SPDX-License-Identifier: Apache-2.0
"""The house rules as data: limits, banned words, and the exceptions with their reasons."""

SOURCE_LINES_MAX = 700
SOURCE_LINES_WARNED = 500
TEST_LINES_MAX = 700
HEADER_LINES_MAX = 200
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 5
NESTING_MAX = 4
LINE_COLUMNS_MAX = 100
README_LINES_MAX = 200
README_LINES_WARNED = 120
HEADER_COMMENT_LINES_MAX = 14
CMAKE_LINES_MAX = 150

# (rule, path): reason. A rule's name is the word in brackets at the end of its message. An
# exception also silences the warning of its rule.
EXCEPTIONS = {
    ('columns', 'lib/python/muster_torch_replaces.pth'): 'Python reads it line by line',
    ('function', 'tests/nccl/fakes/cuda/api_module.cpp'): "cuLaunchKernel's signature is CUDA's",
    ('function', 'tests/nccl/fakes/nccl/api_operations.cpp'): "the signatures are NCCL's",
    ('lines', 'lib/agent/events/job_event.hpp'): 'data: one small value for each event',
    ('lines', 'rendezvous/node/rendezvous_node.cpp'): 'one short function for each effect',
    ('lines', 'rendezvous/round/follower/link_core.hpp'): 'one class; its parts are in two files',
    ('lines', 'rendezvous/round/leader/round_core.hpp'): 'one class; its parts are in six files',
    ('lines', 'README.md'): 'what users see first: tables of figures and exit codes belong there',
    ('sleep', 'apps/muster-bench/measure/child.py'): 'foreign servers do not say that they are up',
    ('sleep', 'apps/muster-bench/ranks/crashing.py'): 'polls for what other ranks have noted',
    ('sleep', 'apps/muster-bench/ranks/recovery.py'): 'a step has a fixed duration',
    ('sleep', 'tests/hangs/kinds.py'): 'a worker that hangs is its job',
    ('sleep', 'tests/hangs/torch_kinds.py'): 'a worker that hangs is its job',
    ('sleep', 'tests/hangs/slow.py'): 'a worker that is slow is its job',
    ('sleep', 'tests/hangs/training.py'): 'a training that is slow is its job',
    ('sleep', 'lib/python/muster/torch/monitored.py'): "PyTorch 1.13's store cannot wait so long",
    ('sleep', 'tests/fuzz/hostile_test.py'): 'the memory of another process is asked for again',
    ('sleep', 'tests/integration/preemption_worker.py'): 'its steps take time, or it hangs',
    ('sleep', 'tests/integration/test_preemption.py'): 'two signals at once count as one',
    ('sleep', 'tests/integration/channel_worker.py'): 'files and parents are asked for again',
    ('sleep', 'tests/integration/test_leftovers.py'): 'a user who presses Ctrl-C twice',
    ('sleep', 'tests/integration/test_nodes_random.py'): 'a random moment is what is tested',
    ('sleep', 'tests/integration/test_signals.py'): 'a user who presses Ctrl-C twice',
    ('sleep', 'tests/support/cases.py'): 'files and foreign processes are asked for again',
    ('sleep', 'tests/torch/frameworks/site/sitecustomize.py'):
        "until gloo's threads sleep, asked again",
    ('sleep', 'tests/torch/test_store.py'): 'a signal is to come while the others wait',
    ('sleep', 'tests/torch/store_case.py'): 'makes the order likely in which calls wait; all pass',
    ('sleep', 'tests/torch/workers/train_together.py'): 'a step of training takes its time',
    ('vocabulary', 'lib/config/options/rdzv_conf.cpp'):
        'refuses the old key with the name of the new one',
    ('vocabulary', 'tests/unit/config/values_test.cpp'): 'as rdzv_conf.cpp',
    ('words', 'lib/collective/communicator/caller_clock.hpp'): 'the clock of a thread, not of time',
    ('words', 'tests/support/straggler_worker.cpp'): 'naps are the work of its ranks',
    ('words', 'tests/support/puppet.cpp'): 'a worker that hangs or works for a while is its job',
}

LAUNCHER = ('lib/', 'rendezvous/', 'apps/muster/', 'apps/muster-store/', 'apps/musterctl/')
OURS = ('lib/', 'rendezvous/', 'apps/')
CPP = OURS + ('tests/', 'examples/')
TESTS = ('tests/',)
# Part of PyTorch's process, with its threads and exceptions; linked to none of our code.
PYTORCH = ('lib/python/muster/torch/native/',)

# (pattern in code without comments and strings, where, except in, why).
BANNED = (
    (r'\bthrow\b', OURS, PYTORCH, 'errors are values (Result); foreign exceptions are only caught'),
    (r'\b(?:secure_)?getenv\b', OURS, (), 'the environment is taken once, as an Environ'),
    (r'\bstd::(?:j?thread|(?:\w+_)?mutex|atomic\w*|condition_variable\w*|async)\b'
     r'|\bpthread_create\b', LAUNCHER,
     ('lib/collective/', 'lib/process/deaths/death_', 'lib/base/futex', 'lib/base/liveness_page',
      'lib/worker/channel/progress_page', 'lib/worker/worker', 'lib/worker/agent_connection',
      *PYTORCH),
     'the launcher and the server have one thread'),
    (r'\bdetached\b', CPP, (), 'asio::detached swallows exceptions'),
    (r'\bsystem_clock::now\b|\bsteady_clock::now\b|\bclock_gettime\b|\bgettimeofday\b', OURS,
     ('lib/base/clock.cpp', 'lib/collective/link/', 'apps/muster-bench/', *PYTORCH),
     'time comes from base/clock.hpp'),
    (r'(?<!ares_)\bgetaddrinfo\b|\bgethostbyname\w*|\bgetnameinfo\b|\bip::tcp::resolver\b', CPP, (),
     'names are resolved by io/resolver.hpp; nothing is resolved backwards'),
    (r'\bsleep_for\b|\bsleep_until\b|\busleep\b|\bnanosleep\b|(?<![\w.])sleep\s*\(',
     LAUNCHER + TESTS, (), 'wait for the event itself, with a deadline'),
    (r'\brand\s*\(|\bsrand\b|\brandom_device\b', OURS, (), 'randomness is handed in with a seed'),
    (r'\bsystem\s*\(|\bpopen\s*\(', OURS, (), 'no shell: start programs by argv'),
)

# Names that were once used in the tree and have been replaced: (pattern anywhere in C++, Python and
# Markdown, replacement).
VOCABULARY = (
    (r'\bErrand\b', 'Command'),
    (r'\bLifePage\b|\blife_page\b|\bLifeOffer\b', 'LivenessPage, LivenessOffer'),
    (r'\bPlanSite\b', 'PlanContext'),
    (r'\bflight_keep\w+', 'flight_recorder_keeper'),
    (r'\bgive_flights\b', 'hand_over_flight_recorder'),
    (r'\blauncher_word\b|\bLauncherWord\b', 'death_notice'),
    (r'\brisk_two_worlds\b', 'allow_split_brain'),
    (r'\bpatience\w*\b|\bk\w*Patience\b', 'timeout, max_wait'),
    (r'\bSighting\b', 'MemberEvidence'),
    (r'\b\w+Duty\b|\b[a-z]+_duty\b', 'HangControl, StragglerWatch, ChildDeathWatch, PortWatch'),
    (r'\b(?:Hang|Wait)Party\b|\b(?:hang|wait)_party\b', 'InquiryListener, WaitListener'),
    (r'\bWorkplace\b|\bRunPlace\b', 'RunFolder, AgentRunFolder'),
    (r'\bstore_place\b', 'store_address'),
    (r'\bis_seeking\b|\bseeking\.cpp\b', 'finding_leader'),
    (r'\battaching\.cpp\b', 'joining.cpp'),
    (r'\bVoucher\b|\bvoucher\.[ch]pp\b', 'ClientVouching, client_vouching'),
    (r'\blib/(?:host|channel|restart)\b', 'lib/machine, lib/worker/channel, rendezvous/round'),
)
