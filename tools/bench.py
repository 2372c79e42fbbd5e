#!/usr/bin/env python3
"""Measures the experiment and prints what was measured beside what is aimed for.

Ratios are against least-request, taken within one interleaved run: absolute
times drift on a shared machine, ratios much less. Nothing here fails: a bound
that is missed is printed, not hidden.

Usage: bench.py TAPER [emulated|nginx ...]
"""

import json
import subprocess
import sys

# Highest ratio aimed for: p50, p99, total CPU.
AIMS = {
    "emulated": {"equal-load": (0.90, 0.60, 0.82), "least-latency": (0.72, 0.42, 0.62)},
    "nginx": {"equal-load": (0.95, 0.90, 0.85), "least-latency": (0.55, 0.70, 0.55)},
}
SETTLED_WITHIN = 3  # control intervals
RUN = {
    "emulated": ["--rounds", "5", "--measure", "15s"],
    "nginx": ["--rounds", "4", "--measure", "25s"],
}


def row(what, measured, aim, unit=""):
    held = measured is not None and measured >= 0 and measured <= aim
    value = "-" if measured is None or measured < 0 else f"{measured:.2f}{unit}" if isinstance(measured, float) else f"{measured}{unit}"
    print(f"{what:<48} {value:>10}   ≤ {aim}{unit:<10} {'' if held else 'MISSED'}".rstrip())


def experiment(taper, kind):
    command = [taper, "lab", "balance", "--endpoints", kind, "--disturb", "--json", "--report", "", *RUN[kind]]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"\n{kind}: {' '.join(command[1:])}")
    for arm, aims in AIMS[kind].items():
        ratio = result["ratios"].get(f"{arm}/least-request", {})
        for quantity, aim in zip(("p50", "p99", "cpu"), aims):
            row(f"{arm}, {quantity} against least-request", ratio.get(quantity), aim)
    for arm in result["arms"]:
        row(f"{arm['name']}, failed requests of {arm['requests']}", arm["errors"], 0)
        if arm["name"] in AIMS[kind]:
            row(f"{arm['name']}, settled after", arm.get("settled_after_intervals"), SETTLED_WITHIN, " intervals")
            after = result["disturbance"]["settled_after_intervals"][arm["name"]]
            row(f"{arm['name']}, settled again after a disturbance", after, SETTLED_WITHIN, " intervals")


def main():
    taper, *kinds = sys.argv[1:]
    for kind in kinds or AIMS:
        experiment(taper, kind)


if __name__ == "__main__":
    main()
