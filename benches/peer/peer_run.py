#!/usr/bin/env python3
"""Runs a .pte on the ExecuTorch C++ runtime.  See README.md.

Exit status: 0 all runs done; 1 the runtime answered with an error; 2 wrong
arguments or calls file; 3 the runtime's process crashed or hung.
"""
import argparse
import json
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True  # this folder may be read-only
import peer_lib as P


def arguments():
    ap = argparse.ArgumentParser(
        description="Loads a program in the ExecuTorch C++ runtime and makes the calls of a JSON file, in order, "
        "on the one loaded program.",
        epilog="Exit status: 0 done, 1 error of the runtime, 2 usage, 3 crash.",
    )
    ap.add_argument("model", metavar="MODEL.pte")
    ap.add_argument("--calls", metavar="JSON", help="what to run (a recorded meta.json does); without it the methods are only loaded")
    ap.add_argument("--data", metavar="F.ptd", nargs="+", action="extend", default=[], help="external tensor data")
    ap.add_argument("--output-dir", metavar="DIR", help="where run<i>_out<j>.npy and outputs.json go")
    ap.add_argument("--trace", metavar="FILE", help="where the trace of device allocations, copies and delegate calls goes")
    ap.add_argument("--json", action="store_true", help="print the whole result as JSON")
    ap.add_argument("--verification", choices=["internal", "minimal"], default="internal", help="of the flatbuffer (default internal)")
    ap.add_argument("--mode", choices=["file", "mmap"], default="file", help="how the program is read")
    ap.add_argument("--share-arenas", action="store_true", help="for programs exported with share_mutable_buffers: the methods share planned memory")
    ap.add_argument("--plain", action="store_true", help="without the stand-in device and NestedProgramBackend")
    ap.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the runtime's pool (default 1)")
    ap.add_argument("--timeout", type=float, default=600, metavar="S", help="seconds for all of it (default 600)")
    return ap.parse_args()


def save(value, folder, name):
    import numpy as np

    kind, v = value
    if kind == "tensor":
        st, a, sizes = v
        np.save(os.path.join(folder, name), a)
        d = {"kind": "tensor", "file": name, "scalar_type": st, "sizes": sizes, "npy_dtype": str(a.dtype)}
        encoding = P.ENCODING.get(st, "raw bytes")
        if encoding:
            d["encoding"] = encoding
        return d
    if kind in ("none", "other"):
        return {"kind": kind}
    return {"kind": kind, "value": P.plain_double(v) if kind == "double" else v}


def work(a, runs, folder, events, results):
    """In the child: everything that touches the C++ runtime."""
    lib = P.load_library(device=not a.plain)
    lib.peer_report_crashes()
    if a.threads > 0:
        lib.peer_threads(a.threads)
    lib.peer_events(os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    mark = lambda **d: lib.peer_mark(json.dumps(d).encode())
    results = open(results, "a")

    def failed(what, e):
        raise P.RuntimeFailed(f"{what} failed with {P.error_text(lib, e)}")

    module = lib.peer_open(a.model.encode(), "\n".join(a.data).encode(), P.MODES[a.mode], a.share_arenas)
    e = lib.peer_load(module, a.verification == "internal")
    if e:
        failed("loading the program", e)
    have = json.loads(lib.peer_methods(module))
    names = list(dict.fromkeys(r["method"] for r in runs)) if runs is not None else have
    described = {}
    for n in names:
        mark(mark="load", method=n)
        e = lib.peer_load_method(module, n.encode())
        if e:
            failed(f"load_method('{n}')" + ("" if n in have else f" (the program has {', '.join(have)})"), e)
        text = lib.peer_describe(module, n.encode())
        if text is None:
            raise P.RuntimeFailed(f"method '{n}' cannot be described")
        described[n] = json.loads(text)
        print(json.dumps({"method": n, **described[n]}), file=results, flush=True)
    for r, run in enumerate(runs or []):
        n = run["method"]
        mark(mark="run", run=r)
        takes = len(described[n]["inputs"])
        if len(run["inputs"]) != takes:
            raise P.Usage(f"run {r}: {len(run['inputs'])} inputs are given, method '{n}' takes {takes}")
        ins, nin, outs, nout, keep = P.make_args(run, described[n])
        e = lib.peer_execute(module, n.encode(), ins, nin, outs, nout)
        if e:
            failed(f"run {r}: execute('{n}')", e)
        row = [save(P.take_output(outs[j]), folder, f"run{r}_out{j}.npy") for j in range(nout)]
        print(json.dumps({"run": r, "outputs": row}), file=results, flush=True)
    mark(mark="end")
    lib.peer_close(module)


def read_lines(path):
    out = []
    if os.path.exists(path):
        for line in open(path):
            try:
                out.append(json.loads(line))
            except ValueError:  # a crash cut it off
                pass
    return out


def trace_of(events):
    trace = {"load": {}, "runs": []}
    at = None
    for e in events:
        if "mark" in e:
            if e["mark"] == "load":
                at = trace["load"].setdefault(e["method"], [])
            elif e["mark"] == "run":
                at = []
                trace["runs"].append(at)
            else:
                at = None
        elif at is not None:
            at.append(e)
    return trace


def trace_text(trace):
    """The trace as JSON, with one event a line."""

    def events(es):
        return "[" + ",".join("\n  " + json.dumps(e) for e in es) + ("\n ]" if es else "]")

    load = ",".join(f"\n {json.dumps(m)}: {events(es)}" for m, es in trace["load"].items())
    runs = ",".join(f"\n {events(es)}" for es in trace["runs"])
    return '{"load": {' + load + '},\n"runs": [' + runs + "]}\n"


def show(result, folder):
    import numpy as np

    for r in result["runs"]:
        for j, o in enumerate(r["outputs"]):
            if o["kind"] != "tensor":
                text = f"{o['kind']} {o.get('value', '')}"
            else:
                x = np.load(os.path.join(folder, o["file"])).reshape(-1)
                text = f"{o['scalar_type']}{o['sizes']} " + " ".join(str(v) for v in x[:6]) + (" ..." if x.size > 6 else "")
            print(f"run {r['run']} {r['method']} output {j}: {text}")


def main():
    a = arguments()
    P.use_venv()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            for f in [a.model] + a.data:
                if not os.path.isfile(f):
                    raise P.Usage(f"{f}: no such file")
            runs = P.read_calls(a.calls) if a.calls else None
            folder = a.output_dir or scratch
            os.makedirs(folder, exist_ok=True)
            for f in os.listdir(folder):  # of an earlier run
                if re.fullmatch(r"run\d+_out\d+\.npy|outputs\.json", f):
                    os.remove(os.path.join(folder, f))
        except (P.Usage, OSError) as e:
            print(f"peer_run: {e}", file=sys.stderr)
            return P.EXIT_USAGE
        events, results = os.path.join(scratch, "events"), os.path.join(scratch, "results")
        status, message, text = P.in_child(lambda: work(a, runs, folder, events, results), a.timeout)
        trace = trace_of(read_lines(events))
        rows = read_lines(results)
        done = {x["run"]: x["outputs"] for x in rows if "run" in x}
        result = {
            "model": os.path.basename(a.model),
            "runtime": "executorch-cpp " + P.runtime_version()[0],
            "status": status,
            "message": message,
            "log": P.log_lines(text, status == "crash") if status != "ok" else [],
            "methods": {x.pop("method"): x for x in rows if "method" in x},
            "runs": [
                {"run": r, "method": runs[r]["method"], "outputs": done[r]} for r in sorted(done)
            ],
        }
        if a.output_dir:
            with open(os.path.join(folder, "outputs.json"), "w") as f:
                json.dump(result, f, indent=1)
                f.write("\n")
        if a.trace:
            with open(a.trace, "w") as f:
                f.write(trace_text(trace))
        if a.json:
            print(json.dumps({**result, "trace": trace}, indent=1))
        elif status == "ok" and runs is None:
            for n, m in result["methods"].items():
                print(f"method {n}: {len(m['inputs'])} inputs, {len(m['outputs'])} outputs, {m['instructions']} instructions")
        else:
            show(result, folder)
        if status == "ok":
            return P.EXIT_OK
        last = (trace["runs"] or [trace["load"].get(n, []) for n in list(trace["load"])[-1:]] or [[]])[-1]
        head = "the C++ runtime crashed: " if status == "crash" else ""
        where = f" (during run {len(trace['runs']) - 1})" if status == "crash" and trace["runs"] else ""
        print(f"peer_run: {a.model}: {head}{message}{where}", file=sys.stderr)
        for line in result["log"]:
            print(f"  {line}", file=sys.stderr)
        if status == "crash":
            if last:
                print(f"  last event: {json.dumps(last[-1])}", file=sys.stderr)
            if not result["log"] and text.strip():
                print("  " + text.strip().replace("\n", "\n  ")[-2000:], file=sys.stderr)
        return {"error": P.EXIT_ERROR, "usage": P.EXIT_USAGE, "crash": P.EXIT_CRASH}[status]


if __name__ == "__main__":
    sys.exit(main())
