"""Cases of Groth16: small circuits whose trapdoor is known, so that a key and a proof are numbers times the generators."""

from bls12_381 import FR, G1, G2, R, Random, root_of_unity

PROVENANCE = (
    "Groth16 from the paper, with the polynomials' values at tau by Lagrange's formula over the domain of arkworks "
    "(the power of 7^((r-1)/2^32)). Rows after the constraints, one for each input, are in A alone. Keys are given by logs: the "
    "point is log times the generator of its group. No transform, no product of many bases and no pairing is used. "
    "Variable 0 is the constant 1, then come the inputs; a row is a list of [variable, coefficient]."
)

NOTES = {
    "textbook": {"meaning": "A circuit from the textbooks.", "effect": "Anything that is wrong always."},
    "bits": {
        "meaning": "A witness of zeros and ones.",
        "effect": "Scalars of zero and one that are left out or counted twice.",
    },
    "sparse": {
        "meaning": "Variables that occur in A alone, in B alone, in C alone or nowhere: bases at the identity.",
        "effect": "An identity that is added as a point, or bases that move up by one.",
    },
    "full_domain": {
        "meaning": "Constraints and inputs fill the domain to the last row.",
        "effect": "A domain of twice the size, or a last row that is cut off.",
    },
    "no_blinding": {
        "meaning": "r or s is zero.",
        "effect": "A multiple by zero that is not the identity. No proof of a user has this.",
    },
    "no_private": {"meaning": "A circuit without private variables.", "effect": "A product over no bases."},
    "unsatisfied": {
        "meaning": "The assignment does not satisfy a constraint.",
        "effect": "A proof that does not verify, found out by somebody else.",
    },
    "assignment": {
        "meaning": "Not an assignment of this circuit.",
        "effect": "Memory behind the input is read.",
    },
    "forged": {
        "meaning": "A proof or inputs that were changed.",
        "effect": "A verifier that accepts what was not proved.",
    },
    "malleable": {
        "meaning": "(t A, B / t, C): another proof of the same, which anybody can make from the first.",
        "effect": "None: it is valid. Who takes a proof's bytes for its identity is wrong.",
    },
    "verified": {"meaning": "The verifier's word on a proof.", "effect": "A good proof that is refused."},
}


class Circuit:
    """Rows of A, B and C, and a key for them."""

    def __init__(self, name, input_count, variable_count, rows, random):
        self.name, self.input_count, self.variable_count, self.rows = name, input_count, variable_count, rows
        self.log_n = (len(rows) + input_count - 1).bit_length()
        self.tau, self.alpha, self.beta, self.gamma, self.delta = (1 + random.below(R - 1) for _ in range(5))
        n = 2**self.log_n
        omega = root_of_unity(7, self.log_n)
        self.vanishing = (pow(self.tau, n, R) - 1) % R
        # L_i(tau) = omega^i (tau^n - 1) / (n (tau - omega^i))
        lagrange = [
            pow(omega, i, R) * self.vanishing * pow(n * (self.tau - pow(omega, i, R)), -1, R) % R
            for i in range(n)
        ]
        columns = [[0] * variable_count for _ in range(3)]
        for row, at_tau in zip(rows, lagrange):
            for column, terms in zip(columns, row):
                for variable, coefficient in terms:
                    column[variable] = (column[variable] + coefficient * at_tau) % R
        for i in range(input_count):
            columns[0][i] = (columns[0][i] + lagrange[len(rows) + i]) % R
        self.a, self.b, self.c = columns

    def first_failing(self, z):
        at = lambda terms: sum(coefficient * z[variable] for variable, coefficient in terms)
        failing = (i for i, (a, b, c) in enumerate(self.rows) if (at(a) * at(b) - at(c)) % R)
        return next(failing, None)

    def combined(self, variable, over):
        value = self.beta * self.a[variable] + self.alpha * self.b[variable] + self.c[variable]
        return value * pow(over, -1, R) % R

    def json(self):
        numbers = lambda values: [FR.hex(value) for value in values]
        trapdoor = {word: FR.hex(getattr(self, word)) for word in ("tau", "alpha", "beta", "gamma", "delta")}
        h = [
            pow(self.tau, i, R) * self.vanishing * pow(self.delta, -1, R) % R
            for i in range(2**self.log_n - 1)
        ]
        rows = lambda which: [[[v, FR.hex(c % R)] for v, c in row[which]] for row in self.rows]
        inputs, private = range(self.input_count), range(self.input_count, self.variable_count)
        return {
            "name": self.name,
            "input_count": self.input_count,
            "variable_count": self.variable_count,
            "log_n": self.log_n,
            **{word: rows(which) for which, word in enumerate("abc")},
            "trapdoor": trapdoor,
            "key_logs": {
                "gamma_abc_g1": numbers(self.combined(variable, self.gamma) for variable in inputs),
                "a_query": numbers(self.a),
                "b_query": numbers(self.b),
                "h_query": numbers(h),
                "l_query": numbers(self.combined(variable, self.delta) for variable in private),
            },
        }

    def prove(self, z, r, s):
        """The logs of A, B and C."""
        assert self.first_failing(z) is None
        at = lambda column: sum(value * z[variable] for variable, value in enumerate(column)) % R
        a_tau, b_tau, c_tau = at(self.a), at(self.b), at(self.c)
        a = (self.alpha + a_tau + r * self.delta) % R
        b = (self.beta + b_tau + s * self.delta) % R
        l = sum(self.combined(i, self.delta) * z[i] for i in range(self.input_count, self.variable_count))
        h = (a_tau * b_tau - c_tau) * pow(self.delta, -1, R)
        c = (s * a + r * b - r * s * self.delta + l + h) % R
        # The pairing equation, in the exponent.
        public = sum(self.combined(i, self.gamma) * z[i] for i in range(self.input_count))
        assert (a * b - self.alpha * self.beta - public * self.gamma - c * self.delta) % R == 0
        return a, b, c


def proof_bytes(a, b, c):
    return (G1.compressed(G1.of_log(a)) + G2.compressed(G2.of_log(b)) + G1.compressed(G1.of_log(c))).hex()


def square(random):
    rows = [([(2, 1)], [(2, 1)], [(1, 1)])]
    x = random.below(R)
    return Circuit("x^2 = y", 2, 3, rows, random), [1, x * x % R, x]


def cubic(random):
    # 1, out, x, x^2, x^3
    rows = [
        ([(2, 1)], [(2, 1)], [(3, 1)]),
        ([(3, 1)], [(2, 1)], [(4, 1)]),
        ([(4, 1), (2, 1), (0, 5)], [(0, 1)], [(1, 1)]),
    ]
    return Circuit("x^3 + x + 5 = y", 2, 5, rows, random), [1, 35, 3, 9, 27]


def bits(random):
    # 1, sum, eight bits: each is 0 or 1, and together they are the sum.
    value = 0b1011_0010
    each = [([(2 + i, 1)], [(2 + i, 1), (0, -1)], []) for i in range(8)]
    total = [([(2 + i, 2**i) for i in range(8)], [(0, 1)], [(1, 1)])]
    z = [1, value] + [value >> i & 1 for i in range(8)]
    return Circuit("eight bits", 2, 10, each + total, random), z


def public_product(random):
    rows = [([(1, 1)], [(2, 1)], [(3, 1)])]
    z = [1, 6, 7, 42]
    return Circuit("a public product", 4, 4, rows, random), z


def scattered(random):
    """Random rows, thirteen of them and three inputs in a domain of sixteen. Variable 4 is in A alone, 5 in B alone, 6 in C
    alone, 7 nowhere, and 8 to 11 everywhere."""
    z = [1] + [random.below(R) for _ in range(11)]
    z[8], z[9] = 0, 1
    rows = []
    for index in range(13):
        pick = lambda only: [
            (random.one_of([0, 1, 2, only, 8, 9, 10, 11]), 1 + random.below(R - 1))
            for _ in range(1 + index % 3)
        ]
        a, b, c = pick(4), pick(5), pick(6)
        if index == 0:
            a, b, c = a + [(4, 1)], b + [(5, R - 1)], c + [(6, 3)]
        at = lambda terms: sum(coefficient * z[variable] for variable, coefficient in terms)
        c.append((0, (at(a) * at(b) - at(c)) % R))
        rows.append((a, b, c))
    return Circuit("scattered rows", 3, 12, rows, random), z


def parts(seed):
    random = Random(seed, "groth16")
    numbers = lambda values: [FR.hex(value) for value in values]
    tests, circuits = [], []

    def prove(comment, flags, circuit, z, r, s, error=None):
        given = {
            "op": "prove",
            "circuit": circuit.name,
            "assignment": numbers(z),
            "r": FR.hex(r),
            "s": FR.hex(s),
        }
        test = {"comment": comment, "flags": flags, "input": given}
        if error:
            tests.append({**test, "result": "invalid", **error})
            return
        a, b, c = circuit.prove(z, r, s)
        logs = {"a": FR.hex(a), "b": FR.hex(b), "c": FR.hex(c)}
        tests.append({**test, "result": "valid", "output": {"logs": logs, "proof": proof_bytes(a, b, c)}})

    def verify(comment, flag, circuit, inputs, proof, error=None):
        given = {
            "op": "verify",
            "circuit": circuit.name,
            "inputs": numbers(inputs),
            "proof": proof_bytes(*proof),
        }
        test = {"comment": comment, "flags": [flag], "input": given}
        tests.append({**test, "result": "invalid", "error": error} if error else {**test, "result": "valid"})

    blinding = lambda: (1 + random.below(R - 1), 1 + random.below(R - 1))
    kinds = [
        (square, "textbook"),
        (cubic, "textbook"),
        (bits, "bits"),
        (public_product, "no_private"),
        (scattered, "sparse"),
    ]
    made = {}
    for kind, flag in kinds:
        circuit, z = kind(random)
        made[kind] = (circuit, z)
        circuits.append(circuit.json())
        flags = [flag] + (
            ["full_domain"] if len(circuit.rows) + circuit.input_count == 2 ** circuit.log_n else []
        )
        prove(circuit.name, flags, circuit, z, *blinding())
    circuit, z = made[scattered]
    r, s = blinding()
    for comment, r_, s_ in (
        ("r = 0", 0, s),
        ("s = 0", r, 0),
        ("r = s = 0", 0, 0),
        ("r = s = r - 1", R - 1, R - 1),
    ):
        flags = ["no_blinding"] if 0 in (r_, s_) else ["sparse"]
        prove(comment, flags, circuit, z, r_, s_)

    for index in (1, 8, 11):
        changed = z[:index] + [(z[index] + 1) % R] + z[index + 1 :]
        failing = circuit.first_failing(changed)
        assert failing is not None
        error = {"error": "unsatisfied", "index": failing}
        prove(f"variable {index} is one more", ["unsatisfied"], circuit, changed, *blinding(), error)
    circuit, z = made[bits]
    changed = z[:9] + [2]
    error = {"error": "unsatisfied", "index": circuit.first_failing(changed)}
    prove("a bit that is 2", ["unsatisfied"], circuit, changed, *blinding(), error)
    prove("a value too few", ["assignment"], circuit, z[:-1], *blinding(), {"error": "length_mismatch"})
    prove("a value too many", ["assignment"], circuit, z + [0], *blinding(), {"error": "length_mismatch"})
    prove("the constant is 2", ["assignment"], circuit, [2] + z[1:], *blinding(), {"error": "first_not_one"})

    circuit, z = made[cubic]
    a, b, c = circuit.prove(z, *blinding())
    inputs, t = z[1:2], 5
    verify("as proved", "verified", circuit, inputs, (a, b, c))
    verify("t A and B / t", "malleable", circuit, inputs, (a * t % R, b * pow(t, -1, R) % R, c))
    verify("-A and -B", "malleable", circuit, inputs, (-a % R, -b % R, c))
    for comment, proof in (
        ("-A", (-a % R, b, c)),
        ("A + G", (a + 1, b, c)),
        ("B + G", (a, b + 1, c)),
        ("C + G", (a, b, c + 1)),
        ("A is the identity", (0, b, c)),
        ("B is the identity", (a, 0, c)),
        ("C is the identity", (a, b, 0)),
        ("A and C exchanged", (c, b, a)),
    ):
        verify(comment, "forged", circuit, inputs, proof, "invalid_proof")
    verify("another input", "forged", circuit, [36], (a, b, c), "invalid_proof")
    verify("the input is zero", "forged", circuit, [0], (a, b, c), "invalid_proof")
    verify("an input too many", "forged", circuit, [35, 0], (a, b, c), "length_mismatch")
    verify("an input too few", "forged", circuit, [], (a, b, c), "length_mismatch")
    return {
        "groth16": {
            "algorithm": "Groth16 over BLS12-381",
            "provenance": PROVENANCE,
            "notes": NOTES,
            "tables": {"circuits": circuits},
            "tests": tests,
        }
    }
