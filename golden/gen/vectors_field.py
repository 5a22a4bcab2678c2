"""Cases of the fields: Fp, Fr and Fp2."""

from bls12_381 import FP, FP2, FR, R, Random

PROVENANCE = (
    "Integers modulo p and r, and pairs of them, from the definitions. Canonical is the integer itself; Montgomery is "
    "the integer times 2^384 (Fp) or 2^256 (Fr), as it lies in memory. Hexadecimal, the highest digit first."
)

NOTES = {
    "limb_edge": {
        "meaning": "The memory of an operand is at the edge of a 32-bit or 64-bit limb.",
        "effect": "A carry that is lost between limbs gives another element.",
    },
    "modulus_edge": {
        "meaning": "An operand, or its memory, is within two of zero or of the modulus.",
        "effect": "A missing last subtraction gives a value that is not canonical; one too many gives another element.",
    },
    "half": {
        "meaning": "An operand is the largest below, or the smallest above, half the modulus.",
        "effect": "A doubling compares with the modulus on the wrong side.",
    },
    "equal_operands": {
        "meaning": "Both operands are equal.",
        "effect": "A difference that is not zero, or is the modulus.",
    },
    "opposite_operands": {
        "meaning": "The operands add up to zero.",
        "effect": "A sum that is the modulus instead of zero.",
    },
    "coordinate_zero": {
        "meaning": "One coordinate of an element of the extension is zero.",
        "effect": "A formula that skips a product, or a negation of zero that gives the modulus.",
    },
    "no_inverse": {
        "meaning": "Zero has no inverse.",
        "effect": "A power that gives zero, and is taken for an inverse.",
    },
    "division_steps": {
        "meaning": "The memory of an operand makes an inversion by division steps take many steps of one kind.",
        "effect": "A loop that ends a step too early, or a sign of an intermediate number that is lost.",
    },
    "not_reduced": {
        "meaning": "Any 256 bits become the scalar that they are modulo r.",
        "effect": "A value that is not canonical, or one that is reduced once where it takes two subtractions.",
    },
    "random": {"meaning": "Uniform operands.", "effect": "Anything that is wrong always."},
}


def prime_edges(field):
    """Elements, by value and by memory, with their flags."""
    modulus, bits = field.modulus, 8 * field.width_bytes
    edges = [(value % modulus, ["modulus_edge"]) for value in (0, 1, 2, -1, -2)]
    edges += [(modulus // 2, ["half"]), (modulus // 2 + 1, ["half"])]
    edges += [(field.from_montgomery(words), ["modulus_edge"]) for words in (1, modulus - 1)]
    for limb in (32, 64, bits // 2, bits - 64):
        edges += [(field.from_montgomery(words), ["limb_edge"]) for words in (2**limb - 1, 2**limb)]
    return edges


def quadratic_edges(field, random):
    few = [0, 1, field.base.modulus - 1, field.base.from_montgomery(2**64 - 1)]
    edges = []
    for c0 in few:
        for c1 in few:
            flags = ["limb_edge"] if few[3] in (c0, c1) else ["modulus_edge"]
            edges.append(((c0, c1), flags + (["coordinate_zero"] if 0 in (c0, c1) else [])))
    edges.append(((0, field.base.random(random)), ["coordinate_zero"]))
    return edges


def inversion_edges(field, random):
    """Elements whose memory is a power of two, a repeated pattern, or a ratio of small numbers to the modulus."""
    base = FP if field is FP2 else field
    modulus, bits = base.modulus, 8 * base.width_bytes - 8
    words = [2**bit for bit in (1, 29, 30, 31, 59, 60, bits - 60, bits)]
    words += [sum(2**bit for bit in range(0, bits, 2)), sum(2**bit for bit in range(1, bits, 2)), 2**bits - 1]
    words += [modulus // divisor for divisor in (3, 5, 7)] + [modulus - 2**30, modulus - 2**60]
    elements = [base.from_montgomery(word) for word in words]
    if field is FP2:
        elements = [(a, base.random(random)) for a in elements[::2]] + [(base.random(random), a) for a in elements[1::2]]
    return [(element, ["division_steps"]) for element in elements]


def pairs(field, edges, random, random_count):
    found = []
    for index, (a, flags) in enumerate(edges):
        b, other = edges[(index + 1) % len(edges)]
        found.append((a, b, sorted({*flags, *other})))
        if index % 2 == 0:
            found.append((a, a, sorted({*flags, "equal_operands"})))
        else:
            found.append((a, field.neg(a), sorted({*flags, "opposite_operands"})))
    found += [(field.random(random), field.random(random), ["random"]) for _ in range(random_count)]
    return found


def both(field, a):
    return {"canonical": field.element(a), "montgomery": field.element(field.montgomery(a))}


def part(name, field, edges, random):
    tests = []

    def case(comment, flags, op, operands, output, error=None):
        names = dict(zip("ab", (both(field, operand) for operand in operands)))
        test = {"comment": comment, "flags": flags, "input": {"op": op, **names}}
        if error:
            test.update(result="invalid", error=error)
        else:
            test.update(result="valid", output=both(field, output))
        tests.append(test)

    for op, word in (("add", "a + b"), ("sub", "a - b"), ("mul", "a * b")):
        # Sums and differences in the extension are those of the coordinates: fewer of them do.
        step = 3 if field is FP2 and op != "mul" else 1
        for a, b, flags in pairs(field, edges, random, 4)[::step]:
            case(word, flags, op, [a, b], getattr(field, op)(a, b))
    singles = edges + [(field.random(random), ["random"]) for _ in range(2)]
    for a, flags in singles:
        case("a * a", flags, "sqr", [a], field.mul(a, a))
        case("-a", flags, "neg", [a], field.neg(a))
        if a == field.zero:
            case("zero has no inverse", sorted({*flags, "no_inverse"}), "inv", [a], None, "no_inverse")
        else:
            inverse = field.inv(a)
            assert field.mul(a, inverse) == field.one
            case("1 / a", flags, "inv", [a], inverse)
    for a, flags in inversion_edges(field, Random(name, "inversions")):
        inverse = field.inv(a)
        assert field.mul(a, inverse) == field.one
        case("1 / a", flags, "inv", [a], inverse)
    return {"algorithm": f"{name} of BLS12-381", "provenance": PROVENANCE, "tests": tests}


def reductions():
    tests = []
    for integer in (R - 1, R, R + 1, 2 * R - 1, 2 * R, 2 * R + 1, 2**256 - 1):
        tests.append(
            {
                "comment": "256 bits modulo r",
                "flags": ["not_reduced"],
                "input": {"op": "reduce", "words": FR.hex(integer)},
                "result": "valid",
                "output": both(FR, integer % R),
            }
        )
    return tests


def parts(seed):
    random = Random(seed, "field")
    found = {
        "field_fp": part("Fp", FP, prime_edges(FP), random),
        "field_fr": part("Fr", FR, prime_edges(FR), random),
        "field_fp2": part("Fp2", FP2, quadratic_edges(FP2, random), random),
    }
    found["field_fr"]["tests"] += reductions()
    for file in found.values():
        used = {flag for test in file["tests"] for flag in test["flags"]}
        file["notes"] = {flag: note for flag, note in NOTES.items() if flag in used}
    return found
