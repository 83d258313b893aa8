#!/usr/bin/env python3
"""Runs files that we wrote beside the files they were made from, on the ExecuTorch C++ runtime.

    peer_interop.py JOBS.json

JOBS.json is a list of {"name", "calls", "share_arenas", "files": {"original": {"model", "data"}, NAME: {...}, ...}}. One line of
JSON is printed for each file that is not an original: {"name", "file", "status", "outputs", "message"}, where status is `same`
(every output of every call is the same, bit for bit), `different`, `refused` (the runtime answers with an error), `crash`, or
`no original` (the original itself does not run, so there is nothing to compare with).
"""
import json
import os
import sys
import tempfile
from types import SimpleNamespace

sys.dont_write_bytecode = True  # this folder may be read-only
import peer_lib as P
import peer_run

# A call that takes longer than this hangs.
SECONDS = 120


def outputs_of(file, job, runs):
    """(status, message, outputs per call) of one file."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        events, results = (os.path.join(folder, name) for name in ("events", "results"))
        a = SimpleNamespace(
            model=file["model"], data=file["data"], plain=False, threads=1, mode="file", verification="internal",
            share_arenas=job["share_arenas"],
        )
        status, message, _ = P.in_child(lambda: peer_run.work(a, runs, folder, events, results), SECONDS)
        outputs = []
        for line in peer_run.read_lines(results):
            for value in line.get("outputs", []) if "run" in line else []:
                array = np.load(os.path.join(folder, value["file"])) if value["kind"] == "tensor" else None
                outputs.append((value, array))
        return status, message, outputs


def difference(found, expected):
    """What differs first, or None."""
    if len(found) != len(expected):
        return f"{len(found)} outputs, expected {len(expected)}"
    for k, ((value, array), (wanted, other)) in enumerate(zip(found, expected)):
        keys = ("kind", "scalar_type", "sizes", "value")
        if [value.get(key) for key in keys] != [wanted.get(key) for key in keys]:
            return f"output {k} is {value}, expected {wanted}"
        if array is not None and array.tobytes() != other.tobytes():
            return f"output {k} has other elements"
    return None


def verdict(file, job, runs, original):
    if original[0] != "ok":
        return "no original", original[1], 0
    status, message, outputs = outputs_of(file, job, runs)
    if status != "ok":
        return {"error": "refused", "usage": "different"}.get(status, status), message, 0
    message = difference(outputs, original[2])
    return ("different" if message else "same"), message, len(outputs)


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return P.EXIT_USAGE
    P.use_venv()
    with open(sys.argv[1]) as f:
        jobs = json.load(f)
    for job in jobs:
        runs = P.read_calls(job["calls"])
        original = outputs_of(job["files"]["original"], job, runs)
        for name, file in job["files"].items():
            if name == "original":
                continue
            status, message, outputs = verdict(file, job, runs, original)
            row = {"name": job["name"], "file": name, "status": status, "outputs": outputs, "message": message}
            print(json.dumps(row), flush=True)
    return P.EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
