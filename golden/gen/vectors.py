"""Writes golden/vectors/*.json: inputs, and what must come of them, computed in plain integers.

    python3 golden/gen/vectors.py            writes the files
    python3 golden/gen/vectors.py --check    fails if a file differs from what would be written

The files are a function of SEED. `bls12_381.py` has the mathematics, and one module for each algorithm its cases.
"""

import sys

sys.dont_write_bytecode = True

import json
import pathlib

import schema
import vectors_curve
import vectors_field
import vectors_groth16
import vectors_msm
import vectors_ntt

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "vectors"
SEED = "bls12-381 golden vectors, 1"
COLUMNS = 110


def render(value, indent=0):
    """JSON with short values in one line and the parts of long ones below one another: a change is a small diff."""
    line = json.dumps(value)
    if indent + len(line) <= COLUMNS or not isinstance(value, (dict, list)):
        return line
    inner, outer = " " * (indent + 1), " " * indent
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {render(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{outer}}}"
    if all(isinstance(item, int) for item in value):
        return "[\n" + "\n".join(inner + row for row in filled(value, COLUMNS - indent - 1)) + f"\n{outer}]"
    return "[\n" + ",\n".join(inner + render(item, indent + 1) for item in value) + f"\n{outer}]"


def filled(numbers, columns):
    """Numbers in as few rows as they fit, a comma after all but the last."""
    rows = [""]
    for number in numbers:
        word = f"{number},"
        if rows[-1] and len(rows[-1]) + 1 + len(word) > columns:
            rows.append("")
        rows[-1] += f" {word}" if rows[-1] else word
    return rows[:-1] + [rows[-1].rstrip(",")]


def text(part):
    """A file: the header, then the cases with their numbers."""
    tests = [{"id": index + 1, **test} for index, test in enumerate(part["tests"])]
    used = {flag for test in tests for flag in test["flags"]}
    assert used == set(part["notes"]), f"{part['algorithm']}: flags {used ^ set(part['notes'])}"
    value = {
        "schema_version": 1,
        "algorithm": part["algorithm"],
        "generator": {"name": "golden/gen/vectors.py", "version": 1},
        "seed": SEED,
        "provenance": part["provenance"],
        "notes": dict(sorted(part["notes"].items())),
        "test_count": len(tests),
        **part.get("tables", {}),
        "tests": tests,
    }
    written = render(value) + "\n"
    assert json.loads(written) == value and written.isascii()
    schema.check(value, json.loads((FOLDER / "schema.json").read_text()))
    return written


def files():
    parts = {}
    for module in (vectors_field, vectors_curve, vectors_msm, vectors_ntt, vectors_groth16):
        parts.update(module.parts(SEED))
    return {f"{name}.json": text(part) for name, part in parts.items()}


def main():
    for name, written in files().items():
        path = FOLDER / name
        if "--check" not in sys.argv[1:]:
            path.write_text(written)
        elif not path.exists() or path.read_text() != written:
            sys.exit(f"{path} is not what {pathlib.Path(__file__).name} writes")


main()
