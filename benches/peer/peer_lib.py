"""What the tools in this folder share: finding the installed runtime, the
ctypes interface to libfake_device.so, values and their files, and running a
piece of work in a child process.

Run by itself it checks that the runtime loads.
"""
import ctypes
import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

LIBRARY = "libfake_device.so"
DEFAULT_VENV = os.path.join("target", "peer-venv")

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_CRASH = 0, 1, 2, 3


class Usage(Exception):
    """Wrong arguments or a wrong calls file: exit 2."""


class RuntimeFailed(Exception):
    """The C++ runtime answered with an error: exit 1."""


# --------------------------------------------------------------------------
# The virtual environment
# --------------------------------------------------------------------------


def use_venv(need_library=True):
    """Goes on in the virtual environment that setup.sh made: this one, that of
    $PEER_VENV, or ./target/peer-venv."""
    if os.path.exists(os.path.join(sys.prefix, LIBRARY)):
        return
    if not need_library and importlib.util.find_spec("numpy"):
        return
    for venv in (os.environ.get("PEER_VENV"), DEFAULT_VENV):
        python = venv and os.path.join(venv, "bin", "python")
        if python and os.path.exists(os.path.join(venv, LIBRARY)) and os.environ.get("PEER_REEXEC") != "1":
            os.environ["PEER_REEXEC"] = "1"
            os.execv(python, [python] + sys.argv)
    print(
        "the ExecuTorch runtime is not set up: run setup.sh, then use the python in the\n"
        "virtual environment it made (or set PEER_VENV to that folder)",
        file=sys.stderr,
    )
    sys.exit(EXIT_USAGE)


# --------------------------------------------------------------------------
# Scalar types
# --------------------------------------------------------------------------

# name: (code, numpy dtype of the .npy file, encoding note)
_TYPES = {
    "BYTE": (0, "uint8", None),
    "CHAR": (1, "int8", None),
    "SHORT": (2, "int16", None),
    "INT": (3, "int32", None),
    "LONG": (4, "int64", None),
    "HALF": (5, "float16", None),
    "FLOAT": (6, "float32", None),
    "DOUBLE": (7, "float64", None),
    "COMPLEXFLOAT": (9, "complex64", None),
    "COMPLEXDOUBLE": (10, "complex128", None),
    "BOOL": (11, "bool", None),
    "QINT8": (12, "int8", None),
    "QUINT8": (13, "uint8", None),
    "QINT32": (14, "int32", None),
    "BFLOAT16": (15, "uint16", "raw bfloat16 bits as uint16"),
    "FLOAT8E5M2": (23, "uint8", "raw bits as uint8"),
    "FLOAT8E4M3FN": (24, "uint8", "raw bits as uint8"),
    "FLOAT8E5M2FNUZ": (25, "uint8", "raw bits as uint8"),
    "FLOAT8E4M3FNUZ": (26, "uint8", "raw bits as uint8"),
    "UINT16": (27, "uint16", None),
    "UINT32": (28, "uint32", None),
    "UINT64": (29, "uint64", None),
}
CODE = {name: t[0] for name, t in _TYPES.items()}
NAME = {t[0]: name for name, t in _TYPES.items()}
NPY = {name: t[1] for name, t in _TYPES.items()}
ENCODING = {name: t[2] for name, t in _TYPES.items()}
# The type a .npy file is taken for when the JSON names none.
OF_NPY = {}
for _n, _t in _TYPES.items():
    if _t[2] is None and _n not in ("QINT8", "QUINT8", "QINT32"):
        OF_NPY.setdefault(_t[1], _n)


def scalar_value(d):
    """The value of an inline JSON value; non-finite doubles are strings there."""
    v = d.get("value")
    if d["kind"] == "double":
        return float(v)
    return v


def plain_double(v):
    return v if math.isfinite(v) else repr(v)


# --------------------------------------------------------------------------
# Calls
# --------------------------------------------------------------------------


def read_calls(path):
    """The runs of a calls file (or of a recorded meta.json), checked."""
    import numpy as np

    try:
        with open(path) as f:
            j = json.load(f)
    except OSError as e:
        raise Usage(f"{path}: {e.strerror}")
    except ValueError as e:
        raise Usage(f"{path}: not JSON: {e}")
    runs = j.get("runs") if isinstance(j, dict) else j
    if not isinstance(runs, list):
        raise Usage(f'{path}: no "runs" list')
    folder = os.path.dirname(os.path.abspath(path))
    out = []
    for r, run in enumerate(runs):
        where = f"{path}: run {r}"
        if not isinstance(run, dict) or not isinstance(run.get("inputs", []), list):
            raise Usage(f'{where}: not an object with "method" and "inputs"')
        ins = []
        for i, d in enumerate(run.get("inputs", [])):
            at = f"{where}, input {i}"
            if not isinstance(d, dict) or d.get("kind") not in ("tensor", "none", "bool", "int", "double", "string"):
                raise Usage(f"{at}: kind is not one of tensor, none, bool, int, double, string")
            if d["kind"] != "tensor":
                try:
                    ins.append((d["kind"], scalar_value(d), d))
                except (TypeError, ValueError):
                    raise Usage(f"{at}: {d.get('value')!r} is not a double")
                continue
            file = os.path.join(folder, d.get("file", ""))
            try:
                a = np.load(file, allow_pickle=False)
            except (OSError, ValueError) as e:
                raise Usage(f"{at}: cannot read {file}: {e}")
            st = d.get("scalar_type") or OF_NPY.get(str(a.dtype))
            if st not in CODE:
                raise Usage(f"{at}: unknown scalar type {st} (.npy dtype {a.dtype})")
            if str(a.dtype) != NPY[st]:
                raise Usage(f"{at}: a {st} tensor is kept as {NPY[st]}, the file has {a.dtype}")
            if "sizes" in d and list(a.shape) != list(d["sizes"]):
                raise Usage(f"{at}: sizes are {d['sizes']}, the file has {list(a.shape)}")
            if a.ndim > 16:
                raise Usage(f"{at}: more than 16 dimensions")
            ins.append(("tensor", (st, a), d))
        out.append({"method": run.get("method", "forward"), "inputs": ins})
    return out


# --------------------------------------------------------------------------
# The C++ runtime
# --------------------------------------------------------------------------


class PeerValue(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("scalar_type", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("planned", ctypes.c_int32),
        ("sizes", ctypes.c_int32 * 16),
        ("dim_order", ctypes.c_uint8 * 16),
        ("data", ctypes.c_void_p),
        ("nbytes", ctypes.c_uint64),
        ("i", ctypes.c_int64),
        ("d", ctypes.c_double),
        ("s", ctypes.c_char_p),
    ]


KINDS = {"none": 0, "tensor": 1, "int": 2, "double": 3, "bool": 4, "string": 5, "other": 6}
MODES = {"file": 0, "mmap": 1, "buffer": 2}
_P, _S, _I, _V, _U = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(PeerValue), ctypes.c_uint64
_PROTOTYPES = {
    "peer_register": (_I, []),
    "peer_report_crashes": (None, []),
    "peer_error_name": (_S, [_I]),
    "peer_kernel_count": (_I, []),
    "peer_threads": (_I, [_I]),
    "peer_events": (None, [_I]),
    "peer_mark": (None, [_S]),
    "peer_open": (_P, [_S, _S, _I, _I]),
    "peer_close": (None, [_P]),
    "peer_load": (_I, [_P, _I]),
    "peer_load_method": (_I, [_P, _S]),
    "peer_methods": (_S, [_P]),
    "peer_describe": (_S, [_P, _S]),
    "peer_execute": (_I, [_P, _S, _V, _I, _V, _I]),
    "peer_time_load": (ctypes.c_int64, [_S, _S, _I, _S, _U, _I, _S, _I]),
    "peer_bench_prepare": (_I, [_P, _S, _V, _I, _V, _I]),
    "peer_time_call": (ctypes.c_int64, [_P, _S]),
    "peer_time_execute": (ctypes.c_int64, [_P, _S]),
}


def load_library(device=True):
    """libfake_device.so, with the wheel's kernels and XNNPACK registered."""
    package = list(importlib.util.find_spec("executorch").submodule_search_locations)[0]
    for name in ("kernels_optimized", "kernels_quantized", "backend_xnnpack"):
        ctypes.CDLL(os.path.join(package, "lib", f"libexecutorch_{name}.so"), mode=ctypes.RTLD_GLOBAL)
    lib = ctypes.CDLL(os.path.join(sys.prefix, LIBRARY), mode=ctypes.RTLD_GLOBAL)
    for name, (res, args) in _PROTOTYPES.items():
        f = getattr(lib, name)
        f.restype, f.argtypes = res, args
    if device:
        e = lib.peer_register()
        if e:
            raise RuntimeFailed(f"registering the stand-in device failed with {error_text(lib, e)}")
    return lib


def runtime_version():
    """(version, git version) of the executorch wheel, without importing it."""
    package = list(importlib.util.find_spec("executorch").submodule_search_locations)[0]
    with open(os.path.join(package, "version.py")) as f:
        text = f.read()
    find = lambda key: (re.search(rf"{key}.*?=\s*['\"](.*?)['\"]", text) or [None, ""])[1]
    return find("__version__ "), find("git_version:")


def error_text(lib, e):
    if e < 0:
        return "a wrong number of outputs"
    return f"error {e:#x} ({lib.peer_error_name(e).decode()})"


def make_args(run, desc):
    """ctypes arrays for a run's inputs and the method's outputs, and what must
    outlive them.  Data is laid out by the program's dim_order, and placed on
    the device that the program's tensor is tagged with."""
    import numpy as np

    keep = []
    ins = (PeerValue * max(1, len(run["inputs"])))()
    for k, (kind, value, given) in enumerate(run["inputs"]):
        v = ins[k]
        v.kind = KINDS[kind]
        if kind != "tensor" and k < len(desc["inputs"]) and desc["inputs"][k]["kind"] == "none":
            v.kind = 0  # the program does without it, as with a string that export made a constant
            continue
        if kind == "tensor":
            st, a = value
            v.scalar_type, v.ndim = CODE[st], a.ndim
            t = desc["inputs"][k] if k < len(desc["inputs"]) else {}
            order = given.get("dim_order") or t.get("dim_order", [])
            if sorted(order) != list(range(a.ndim)):
                order = list(range(a.ndim))
            v.device_type, v.device_index = t.get("device_type", 0), t.get("device_index", 0)
            for d in range(a.ndim):
                v.sizes[d], v.dim_order[d] = a.shape[d], order[d]
            laid = np.ascontiguousarray(a.transpose(order))
            keep.append(laid)
            v.data, v.nbytes = laid.ctypes.data, laid.nbytes
        elif kind == "string":
            b = value.encode()
            keep.append(b)
            v.s, v.nbytes = b, len(b)
        elif kind == "double":
            v.d = value
        elif kind in ("int", "bool"):
            v.i = int(value)
    outs = (PeerValue * max(1, len(desc["outputs"])))()
    for k, t in enumerate(desc["outputs"]):
        v = outs[k]
        v.kind = KINDS[t["kind"]]
        if t["kind"] == "tensor":
            v.scalar_type, v.ndim, v.nbytes = t["scalar_type_code"], len(t["sizes"]), t["nbytes"]
            v.device_type, v.device_index, v.planned = t["device_type"], t["device_index"], t["planned"]
            for d, (n, o) in enumerate(zip(t["sizes"], t["dim_order"])):
                v.sizes[d], v.dim_order[d] = n, o
    return ins, len(run["inputs"]), outs, len(desc["outputs"]), keep


def take_output(v):
    """(kind, value) of an output; a tensor's value is (scalar type, array)."""
    import numpy as np

    if v.kind == 1:
        st = NAME.get(v.scalar_type, f"TYPE_{v.scalar_type}")
        raw = ctypes.string_at(v.data, v.nbytes) if v.nbytes else b""
        sizes, order = list(v.sizes[: v.ndim]), list(v.dim_order[: v.ndim])
        if st not in NPY:
            return "tensor", (st, np.frombuffer(raw, np.uint8), sizes)
        a = np.frombuffer(raw, NPY[st]).reshape([sizes[k] for k in order])
        a = np.array(a.transpose([order.index(k) for k in range(v.ndim)]), order="C")
        return "tensor", (st, a, sizes)
    if v.kind == 5:
        return "string", ctypes.string_at(v.data, v.nbytes).decode("utf8", "replace") if v.nbytes else ""
    return {0: ("none", None), 2: ("int", int(v.i)), 3: ("double", float(v.d)), 4: ("bool", bool(v.i)), 6: ("other", None)}[v.kind]


# --------------------------------------------------------------------------
# A child process
# --------------------------------------------------------------------------


def in_child(work, timeout=None):
    """Runs work() in a forked child.  Returns (status, detail, text): status
    "ok" with detail None; "error" or "usage" with the message; "crash" with
    how it ended; text is all that the child printed.  The C++ libraries must
    not have been loaded here, so that each child starts afresh."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as note:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 4
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
                work()
                code = 0
            except RuntimeFailed as e:
                note.write(str(e).encode())
                code = 1
            except Usage as e:
                note.write(str(e).encode())
                code = 2
            except BaseException:
                import traceback

                note.write(traceback.format_exc().encode())
            finally:
                note.flush()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        end = None if timeout is None else time.monotonic() + timeout
        timed_out = False
        pause = 0.001
        while True:
            got, st = os.waitpid(pid, 0 if end is None else os.WNOHANG)
            if got:
                break
            if time.monotonic() > end:
                timed_out = True
                os.kill(pid, signal.SIGKILL)
                _, st = os.waitpid(pid, 0)
                break
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        out.seek(0)
        text = out.read().decode("utf8", "replace")
        note.seek(0)
        message = note.read().decode("utf8", "replace")
    if timed_out:
        return "crash", f"still running after {timeout:g} s; ended", text
    if os.WIFSIGNALED(st):
        s = os.WTERMSIG(st)
        try:
            s = signal.Signals(s).name
        except ValueError:
            s = f"signal {s}"
        return "crash", f"the process was ended by {s}", text
    code = os.WEXITSTATUS(st)
    if code == 0:
        return "ok", None, text
    if code == 1 and message:
        return "error", message, text
    if code == 2 and message:
        return "usage", message, text
    return "crash", message or f"the process ended with exit status {code}", text


_LOG = re.compile(r"([DIEF]) [\d:.]+ executorch:([\w.]+:\d+)\] ?(.*)")
_FRAME = re.compile(r"\S*?([^/\s]+)\((.*?)(\+0x[0-9a-f]+)\)\s?\[0x[0-9a-f]+\]$")
_OUTER = re.compile(r"libffi|_ctypes|python|libfake_device\.so: \+|libc\.so\S*: (\+|__libc)")


def log_lines(text, crash=False):
    """The runtime's own error lines, as "[file:line] message", and after a
    crash what the crash reporter printed."""
    out, frames = [], []
    for line in text.splitlines():
        m = _LOG.match(line)
        f = crash and _FRAME.match(line)
        if m and m.group(1) in "EF":
            out.append(f"[{m.group(2)}] {m.group(3)}")
        elif line.startswith("[fake_device]"):
            out.append(line)
        elif f:
            frames.append(f"{f.group(1)}: {f.group(2)}{f.group(3)}")
    frames = [f for f in frames if not _OUTER.search(f)]
    try:  # readable C++ names, where binutils are there
        p = subprocess.run(["c++filt"], input="\n".join(frames), capture_output=True, text=True)
        if p.returncode == 0:
            frames = p.stdout.splitlines()
    except OSError:
        pass
    return out + ["at " + f for f in frames]


def main():
    use_venv()
    lib = load_library()
    print(
        f"peer setup: the C++ runtime {runtime_version()[0]} loads, with {lib.peer_kernel_count()} kernels, "
        f"XNNPACK and the stand-in device"
    )


if __name__ == "__main__":
    main()
