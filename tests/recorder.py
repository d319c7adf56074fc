"""Record global state of every kind in a file, from the unmarked tests of a suite.

The suite has a copy of this file and calls `record(name)`. Each call adds a line to the file `RECORDED`:
{what: its value}, and numbers drawn from every random stream.
"""

import faulthandler
import gc
import json
import locale
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy
import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config
import torch.fx.experimental._config

RECORDED = "RECORDED"
CONFIGS = (
    torch._dynamo.config,
    torch._functorch.config,
    torch._inductor.config,
    torch.fx.experimental._config,
)
COMPILED = []


def count(graph, inputs):
    """A backend that counts the graphs it gets."""
    COMPILED.append(1)
    return graph.forward


@torch.compile(backend=count)
def users_own(x, n):
    """A function of the suite, compiled before and between the checks."""
    return torch.ops.aten.sin(x) * n


def configuration():
    """Settings that differ from torch's defaults, by the names of module and setting."""
    settings = {}
    for config in CONFIGS:
        for name, value in config.get_config_copy().items():
            if callable(value) or "object at 0x" in repr(value):
                value = type(value).__qualname__
            value = sorted(map(str, value)) if isinstance(value, set) else value
            settings[f"{config.__name__}.{name}"] = repr(value)
    return settings


def loggers():
    """Levels, handlers and filters of loggers, where they are not those that a new logger has."""
    known = {"": logging.getLogger(), **logging.root.manager.loggerDict}
    changed = {}
    for name, logger in known.items():
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in ("", "torch", "suite"):
            if ".__" in name:
                continue  # torch makes these as it imports its compiler, with the handlers of then
            handlers = [[type(h).__name__, h.level, len(h.filters)] for h in logger.handlers]
            if logger.level or handlers or logger.filters or logger.disabled:
                changed[name] = [logger.level, handlers, len(logger.filters), logger.disabled]
    return changed


def _pipes_of_the_copy():
    """Those to the copy of the session's process that `relations.call_order` needs."""
    module = sys.modules.get("pytest_customop.core.fresh_process")
    copy = module.current() if module is not None else None
    return copy.files if copy is not None else ()


def _spare_files():
    """What a session keeps open until its end, so that it can report."""
    spare = sys.modules.get("pytest_customop.plugin.session.spare_files")
    return spare.OPEN if spare is not None else ()


def open_files():
    """The files that this process has open, without the numbers of pipes and unnamed files."""
    targets = []
    of_the_plugin = {*_pipes_of_the_copy(), *_spare_files()}
    for name in os.listdir("/proc/self/fd"):
        if int(name) in of_the_plugin:
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the one that lists
        targets.append(target.partition(":[")[0].partition("/#")[0])
    return sorted(path for path in targets if not path.startswith("/proc/"))


def children():
    """The names of the processes that this one has started."""
    names = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if rest.split()[1] == str(os.getpid()):
            names.append(name)
    return sorted(names)


def temporary():
    """The files below the folder for temporary ones."""
    root = Path(tempfile.gettempdir())
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    return [path for path in paths if not path.startswith("torchinductor_")]  # its cache


def signals():
    """The handlers of every signal."""
    return {
        member.name: str(signal.getsignal(member)).partition(" at 0x")[0]
        for member in signal.Signals
    }


def ask(module, name, *args):
    """The result of a function that not every torch has."""
    return str(getattr(module, name)(*args)) if hasattr(module, name) else "unknown"


def torch_settings():
    """Those of torch."""
    backends = torch.backends
    return {
        "dtype": str(torch.get_default_dtype()),
        "device": str(torch.get_default_device()),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": [torch.is_autocast_enabled(d) for d in ("cpu", "cuda")],
        "autocast dtype": [str(torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")],
        "autocast cache": torch.is_autocast_cache_enabled(),
        "deterministic": [
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
        ],
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "matmul": [torch.get_float32_matmul_precision(), backends.cuda.matmul.allow_tf32],
        "cudnn": [backends.cudnn.enabled, backends.cudnn.benchmark, backends.cudnn.deterministic],
        "cudnn tf32": backends.cudnn.allow_tf32,
        "mkldnn": backends.mkldnn.enabled,
        "denormal": float(torch.tensor([1e-40]) * 1),
        "anomaly": [torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()],
        "warn always": torch.is_warn_always_enabled(),
        "print": str(torch._tensor_str.PRINT_OPTS),
        "dispatch modes": ask(torch._C, "_len_torch_dispatch_stack"),
        "function modes": ask(torch._C, "_len_torch_function_stack"),
        "saved tensors hooks": ask(torch._C._autograd, "_top_saved_tensors_default_hooks", True),
        "functorch": ask(torch._C._functorch, "peek_interpreter_stack"),
        "multithreading": ask(torch._C, "_is_multithreading_enabled"),
        "view replay": ask(torch._C, "_is_view_replay_enabled"),
        "tracing": ask(torch._C, "_get_tracing_state"),
        "cuda": torch.cuda.is_initialized(),
        "memory": torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0,
    }


def process_settings():
    """Those of Python and of the process."""
    return {
        "sys.path": [path for path in sys.path if not path.endswith("setuptools/_vendor")],
        "path hooks": [len(sys.path_hooks), [str(type(finder)) for finder in sys.meta_path]],
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "trace": [str(sys.gettrace()), str(sys.getprofile()), str(threading.gettrace())],
        "hooks": [str(sys.excepthook), str(sys.unraisablehook)[:30], str(sys.displayhook)],
        "bytecode": sys.dont_write_bytecode,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "mask": [os.umask(0o22), os.umask(0o22)],
        "nice": os.nice(0),
        "processors": sorted(os.sched_getaffinity(0)),
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.garbage)],
        "locale": locale.setlocale(locale.LC_ALL),
        "faulthandler": faulthandler.is_enabled(),
        "warnings": [str(entry) for entry in warnings.filters],
        "showwarning": warnings.showwarning.__module__,
        "numpy": [numpy.geterr(), numpy.get_printoptions()],
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "tempdir": tempfile.gettempdir(),
        "stdout": str(type(sys.stdout)),
    }


def random_numbers():
    """From every stream; and the states afterwards, to the last bit."""
    drawn = {
        "torch": torch.rand(3, dtype=torch.float64).tolist(),
        "normal": torch.randn(3).tolist(),
        "python": [random.random(), random.getrandbits(64), random.gauss(0, 1)],
        "numpy": [numpy.random.rand(2).tolist(), numpy.random.randn(1).tolist()],
    }
    kind, keys, *rest = numpy.random.get_state()
    states = [torch.get_rng_state().tolist(), random.getstate(), [kind, keys.tolist(), *rest]]
    return {**drawn, "states": hash_of(states), "seed": torch.initial_seed()}


def hash_of(value):
    """A short word for a long value."""
    import hashlib

    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def record(name):
    """Write down everything, as one line under this name."""
    x = torch.arange(4.0)
    answer = users_own(x, 3).tolist()
    line = {
        "name": name,
        "random": random_numbers(),
        "torch": torch_settings(),
        "process": process_settings(),
        "configuration": configuration(),
        "loggers": loggers(),
        "open files": open_files(),
        "children": children(),
        "temporary files": temporary(),
        "signals": signals(),
        "graphs of a function of the suite": [len(COMPILED), answer],
    }
    with open(Path(__file__).parent / RECORDED, "a") as file:
        file.write(json.dumps(line, default=str) + "\n")
