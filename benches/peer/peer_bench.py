#!/usr/bin/env python3
"""Times the ExecuTorch C++ runtime on .pte files.  See README.md."""
import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # this folder may be read-only
import peer_lib as P


def arguments():
    ap = argparse.ArgumentParser(
        description="Times loading a program, loading a method and executing it, in the ExecuTorch C++ runtime. "
        "The times are taken in C++.  One row per model and thread count.",
        epilog="Exit status: 0 done, 1 an error of the runtime in some row, 2 usage, 3 a crash in some row.",
    )
    ap.add_argument("models", metavar="MODEL.pte", nargs="+")
    ap.add_argument("--calls", metavar="JSON", help="where the inputs are (for all the models); default: calls.json or meta.json "
                    "beside the model, or else inputs made up from the program: random floats, zero integers, true bools")
    ap.add_argument("--run", type=int, default=0, metavar="I", help="which run of the calls file (default 0)")
    ap.add_argument("--method", metavar="NAME", help="made-up inputs for this method; default forward, or the first one")
    ap.add_argument("--data", metavar="F.ptd", nargs="+", action="extend", default=[])
    ap.add_argument("--threads", default="1", metavar="N,...", help="sizes of the runtime's thread pool (default 1)")
    ap.add_argument("--iterations", type=int, default=20000, metavar="N", help="most executions per row (default 20000)")
    ap.add_argument("--seconds", type=float, default=3.0, metavar="S", help="most time per measurement (default 3)")
    ap.add_argument("--verification", choices=["internal", "minimal"], default="internal")
    ap.add_argument("--output", metavar="FILE", help="where the JSON goes (default: standard output)")
    return ap.parse_args()


def stat(ns):
    us = sorted(n / 1e3 for n in ns)
    return {
        "median_us": round(statistics.median(us), 3),
        "p10_us": round(us[int(0.1 * (len(us) - 1))], 3),
        "p90_us": round(us[int(0.9 * (len(us) - 1))], 3),
        "min_us": round(us[0], 3),
        "n": len(us),
    }


def rss_kib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def made_up(desc):
    import numpy as np

    rng = np.random.default_rng(0)
    out = []
    for k, t in enumerate(desc["inputs"]):
        kind = t["kind"]
        if kind == "tensor":
            st = P.NAME.get(t["scalar_type_code"])
            if st is None:
                raise P.Usage(f"input {k}: no value can be made up for scalar type {t['scalar_type_code']}; give --calls")
            x = rng.standard_normal(t["sizes"])
            if st == "BFLOAT16":
                a = (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)
            elif st in ("FLOAT", "DOUBLE", "HALF", "COMPLEXFLOAT", "COMPLEXDOUBLE"):
                a = np.asarray(x, P.NPY[st])
            else:
                a = np.full(t["sizes"], st == "BOOL", P.NPY[st])
            out.append(("tensor", (st, a), {}))
        elif kind == "other":
            raise P.Usage(f"input {k}: no value can be made up for it; give --calls")
        else:
            out.append((kind, {"int": 1, "double": 1.0, "bool": True, "string": "", "none": None}[kind], {}))
    return out


def work(a, model, run, threads, result):
    """In the child: one row."""
    lib = P.load_library()
    lib.peer_report_crashes()
    verify = a.verification == "internal"
    ptd = "\n".join(a.data).encode()
    pte = model.encode()
    with open(model, "rb") as f:
        data = f.read()
    row = {"threads": lib.peer_threads(threads)}

    def check(ns, what):
        if ns < 0:
            raise P.RuntimeFailed(f"{what} failed with {P.error_text(lib, -ns)}")
        return ns

    def measure(once, most, what, least=5):
        out, end = [], time.perf_counter() + a.seconds
        while len(out) < most:
            out.append(check(once(), what))
            if len(out) >= least and time.perf_counter() > end:
                break
        return stat(out)

    modes = ["file", "mmap"] + (["buffer"] if len(a.data) < 2 else [])

    def load(mode, method=None):
        return lambda: lib.peer_time_load(pte, ptd, P.MODES[mode], data, len(data), verify, method, 0)

    for mode in modes:
        load(mode)()  # warms the page cache
        row[f"load_program_{mode}"] = measure(load(mode), 500, "loading the program")

    rss0 = rss_kib()
    module = lib.peer_open(pte, ptd, P.MODES["file"], 0)
    e = lib.peer_load(module, verify)
    check(-e, "loading the program")
    names = json.loads(lib.peer_methods(module))
    name = run["method"] if run else a.method or ("forward" if "forward" in names else names[0])
    row["method"] = name
    check(-lib.peer_load_method(module, name.encode()), f"load_method('{name}')")
    rss1 = rss_kib()
    for mode in modes:
        row[f"load_method_{mode}"] = measure(load(mode, name.encode()), 500, f"load_method('{name}')")

    desc = json.loads(lib.peer_describe(module, name.encode()))
    row["inputs"] = "calls" if run else "made up"
    if run and len(run["inputs"]) != len(desc["inputs"]):
        raise P.Usage(f"{len(run['inputs'])} inputs are given, method '{name}' takes {len(desc['inputs'])}")
    args = P.make_args(run or {"method": name, "inputs": made_up(desc)}, desc)
    check(-lib.peer_bench_prepare(module, name.encode(), *args[:4]), "setting the inputs")
    row["first_call_us"] = round(check(lib.peer_time_call(module, name.encode()), f"execute('{name}')") / 1e3, 3)
    rss2 = rss_kib()
    slow = row["first_call_us"] > 1e6 * a.seconds
    for _ in range(0 if slow else 3):
        lib.peer_time_call(module, name.encode())
    least = 1 if slow else 5
    row["execute"] = measure(lambda: lib.peer_time_execute(module, name.encode()), a.iterations, f"execute('{name}')", least)
    row["call"] = measure(lambda: lib.peer_time_call(module, name.encode()), a.iterations, f"execute('{name}')", least)
    row["instructions"] = desc["instructions"]
    row["planned_buffers"] = desc["planned_buffers"]
    row["backends"] = desc["backends"]
    row["rss_kib"] = {"before_load": rss0, "method_loaded": rss1, "after_first_call": rss2}
    lib.peer_close(module)
    with open(result, "w") as f:
        json.dump(row, f)


def calls_for(a, model):
    path = a.calls
    if path is None and a.method is None:
        for name in ("calls.json", "meta.json"):
            beside = os.path.join(os.path.dirname(model), name)
            if os.path.exists(beside):
                path = beside
                break
    if path is None:
        return None
    runs = P.read_calls(path)
    if not 0 <= a.run < len(runs):
        raise P.Usage(f"{path}: there is no run {a.run}")
    return runs[a.run]


def main():
    a = arguments()
    P.use_venv()
    try:
        threads = [int(t) for t in a.threads.split(",")]
        if min(threads) < 1:
            raise ValueError
    except ValueError:
        print("peer_bench: --threads: numbers above 0, separated by commas", file=sys.stderr)
        return P.EXIT_USAGE
    try:
        for f in a.models + a.data:
            if not os.path.isfile(f):
                raise P.Usage(f"{f}: no such file")
        jobs = [(m, calls_for(a, m)) for m in a.models]
    except P.Usage as e:
        print(f"peer_bench: {e}", file=sys.stderr)
        return P.EXIT_USAGE
    with open("/proc/cpuinfo") as f:
        cpu = next((l.split(":")[1].strip() for l in f if l.startswith("model name")), platform.machine())
    load0 = os.getloadavg()
    rows, worst = [], P.EXIT_OK
    for n in threads:
        for model, run in jobs:
            row = {"model": os.path.join(os.path.basename(os.path.dirname(os.path.abspath(model))), os.path.basename(model)),
                   "pte_bytes": os.path.getsize(model)}
            with tempfile.TemporaryDirectory() as scratch:
                result = os.path.join(scratch, "row")
                status, message, text = P.in_child(lambda: work(a, model, run, n, result))
                if status == "ok":
                    with open(result) as f:
                        row.update(json.load(f))
                    print(f"peer_bench: {row['model']} {row['method']} threads {row['threads']}: "
                          f"execute median {row['execute']['median_us']} us", file=sys.stderr)
                else:
                    row.update(threads=n, status=status, message=message, log=P.log_lines(text, status == "crash"))
                    print(f"peer_bench: {model}: {status}: {message}", file=sys.stderr)
                    for line in row["log"]:
                        print(f"  {line}", file=sys.stderr)
                    worst = max(worst, {"error": P.EXIT_ERROR, "usage": P.EXIT_USAGE, "crash": P.EXIT_CRASH}[status])
            rows.append(row)
    version, git = P.runtime_version()
    out = {
        "environment": {
            "runtime": "executorch-cpp " + version, "git": git, "cpu": cpu, "cores": os.cpu_count(),
            "kernels": "the wheel's optimized kernels (portable ones where there is none), XNNPACK delegate",
            "verification": a.verification, "date": time.strftime("%Y-%m-%d"),
            "load_average_start_end": [load0, os.getloadavg()],
        },
        "rows": rows,
    }
    text = json.dumps(out, indent=1) + "\n"
    if a.output:
        with open(a.output, "w") as f:
            f.write(text)
    else:
        sys.stdout.write(text)
    return worst


if __name__ == "__main__":
    sys.exit(main())
