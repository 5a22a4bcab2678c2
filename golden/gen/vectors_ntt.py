"""Cases of the number-theoretic transforms: sums by the definition, over both roots of unity that are in use."""

from bls12_381 import FR, R, Random, root_of_unity

PROVENANCE = (
    "Forward: X[k] = sum of x[i] * (g * omega^k)^i. Inverse: x[i] = g^-i / n * sum of X[k] * omega^(-i k). g is the "
    "shift, 1 where there is none. omega is a power of 7^((r-1)/2^32) for arkworks, bellman and sppark, of 5^((r-1)/2^32) "
    "for snarkjs. Values are in natural order; where form is montgomery they are the words in memory."
)

NOTES = {
    "arkworks_root": {
        "meaning": "The root of unity of arkworks, bellman and sppark.",
        "effect": "Values in another order: proofs that do not verify.",
    },
    "snarkjs_root": {
        "meaning": "The root of unity of snarkjs, another one on this curve.",
        "effect": "Values in another order: proofs over snarkjs' keys that do not verify.",
    },
    "coset": {
        "meaning": "Values on a coset of the domain.",
        "effect": "Powers of the shift that are left out, or not inverted.",
    },
    "odd_coset": {
        "meaning": "The coset by the root of twice the order: the odd powers of that root.",
        "effect": "As coset; it is where snarkjs' keys have their bases for h.",
    },
    "small": {
        "meaning": "A domain of one value or two.",
        "effect": "A pass without stages, a table without entries.",
    },
    "sparse": {
        "meaning": "Coefficients that are all zero, all equal, or one alone.",
        "effect": "An order that only an asymmetric input would show, or a zero that is not canonical.",
    },
    "modulus_edge": {"meaning": "Values that are r - 1.", "effect": "A reduction too few."},
    "several_passes": {
        "meaning": "More stages than a narrow pass takes.",
        "effect": "Scales between passes that are wrong.",
    },
    "random": {"meaning": "Uniform values.", "effect": "Anything that is wrong always."},
    "root": {
        "meaning": "omega does not have the domain's order.",
        "effect": "A transform that has no inverse.",
    },
    "shift": {
        "meaning": "The coset is the domain itself, or no coset.",
        "effect": "A division by zero in the quotient.",
    },
    "not_reduced": {
        "meaning": "Words that are not below r.",
        "effect": "A value that is not canonical, passed on.",
    },
    "length": {"meaning": "Values that do not fill the domain.", "effect": "Garbage in the rest."},
    "size": {"meaning": "A domain beyond the field's two-adicity.", "effect": "A root that does not exist."},
}

NON_RESIDUES = {"arkworks": 7, "snarkjs": 5}


def powers(base, count):
    found = [1]
    while len(found) < count:
        found.append(found[-1] * base % R)
    return found


def transform(direction, values, omega, shift):
    n, g = len(values), 1 if shift is None else shift
    if direction == "forward":
        found = []
        for at in powers(omega, n):
            found.append(sum(value * power for value, power in zip(values, powers(g * at % R, n))) % R)
        return found
    inverse_n, inverse_omega = pow(n, -1, R), pow(omega, -1, R)
    scales = powers(pow(g, -1, R), n)
    return [
        scales[i]
        * inverse_n
        * sum(value * power for value, power in zip(values, powers(pow(inverse_omega, i, R), n)))
        % R
        for i in range(n)
    ]


def case(comment, flags, domain, log_n, omega, direction, values, shift=None, error=None, form="canonical"):
    given = {"domain": domain, "log_n": log_n, "omega": FR.hex(omega), "direction": direction}
    given["shift"] = None if shift is None else FR.hex(shift)
    given.update(form=form, values=[FR.hex(value) for value in values])
    test = {"comment": comment, "flags": flags, "input": given}
    if error:
        return {**test, "result": "invalid", **error}
    found = transform(direction, values, omega, shift)
    other = {"forward": "inverse", "inverse": "forward"}[direction]
    assert transform(other, found, omega, shift) == [value % R for value in values]
    return {**test, "result": "valid", "output": [FR.hex(value) for value in found]}


def good(random):
    tests = []
    for domain, non_residue in NON_RESIDUES.items():
        root_flag = f"{domain}_root"
        for log_n in (0, 1, 2, 3, 5, 7):
            omega = root_of_unity(non_residue, log_n)
            assert pow(omega, 2**log_n, R) == 1 and (log_n == 0 or pow(omega, 2 ** (log_n - 1), R) == R - 1)
            flags = [root_flag] + (
                ["small"] if log_n < 2 else ["several_passes"] if log_n == 7 else ["random"]
            )
            values = lambda: [random.below(R) for _ in range(2**log_n)]
            for direction in ("forward", "inverse"):
                tests.append(case(f"2^{log_n}", flags, domain, log_n, omega, direction, values()))
                if log_n == 7:
                    continue
                shift, flag = (
                    (7, "coset") if domain == "arkworks" else (root_of_unity(5, log_n + 1), "odd_coset")
                )
                over = flags + [flag]
                tests.append(
                    case(f"2^{log_n}, a coset", over, domain, log_n, omega, direction, values(), shift)
                )
    omega = root_of_unity(7, 3)
    for comment, values, flag in (
        ("zeros", [0] * 8, "sparse"),
        ("ones", [1] * 8, "sparse"),
        ("the first alone", [1] + [0] * 7, "sparse"),
        ("the second alone", [0, 1] + [0] * 6, "sparse"),
        ("the last alone", [0] * 7 + [R - 1], "sparse"),
        ("r - 1 for all", [R - 1] * 8, "modulus_edge"),
        ("ascending", list(range(8)), "sparse"),
    ):
        for direction in ("forward", "inverse"):
            tests.append(case(comment, ["arkworks_root", flag], "arkworks", 3, omega, direction, values))
    tests.append(
        case(
            "a root of the caller's", ["random"], "custom", 3, pow(omega, 3, R), "forward", list(range(1, 9))
        )
    )
    return tests


def bad():
    omega = root_of_unity(7, 2)
    four = [1, 2, 3, 4]
    refused = lambda comment, flag, error, domain="arkworks", log_n=2, root=omega, **more: case(
        comment, [flag], domain, log_n, root, "forward", more.pop("values", four), error=error, **more
    )
    return [
        refused("a root of half the order", "root", {"error": "not_a_root"}, "custom", root=R - 1),
        refused(
            "a root of twice the order", "root", {"error": "not_a_root"}, "custom", root=root_of_unity(7, 3)
        ),
        refused("one", "root", {"error": "not_a_root"}, "custom", root=1),
        refused("zero", "root", {"error": "not_a_root"}, "custom", root=0),
        refused("a shift of zero", "shift", {"error": "shift_is_zero"}, shift=0),
        refused("a shift in the domain", "shift", {"error": "shift_in_domain"}, shift=omega),
        refused("a shift of one", "shift", {"error": "shift_in_domain"}, shift=1),
        refused(
            "r", "not_reduced", {"error": "not_reduced", "index": 0}, values=[R, 0, 0, 0], form="montgomery"
        ),
        refused(
            "r + 1, last",
            "not_reduced",
            {"error": "not_reduced", "index": 3},
            values=[0, 0, 0, R + 1],
            form="montgomery",
        ),
        refused(
            "all bits",
            "not_reduced",
            {"error": "not_reduced", "index": 1},
            values=[1, 2**256 - 1, 0, 0],
            form="montgomery",
        ),
        refused("three values", "length", {"error": "length_mismatch"}, values=[1, 2, 3]),
        refused("five values", "length", {"error": "length_mismatch"}, values=[1, 2, 3, 4, 5]),
        refused("no values", "length", {"error": "empty"}, values=[]),
        refused("2^33", "size", {"error": "domain_too_large"}, log_n=33),
    ]


def parts(seed):
    tests = good(Random(seed, "ntt")) + bad()
    return {
        "ntt": {
            "algorithm": "Number-theoretic transforms over Fr of BLS12-381",
            "provenance": PROVENANCE,
            "notes": NOTES,
            "tests": tests,
        }
    }
