"""Cases of the groups: additions of points in every relation, and encodings, good and bad."""

from bls12_381 import G1, G2, P, Random

PROVENANCE = (
    "Affine addition by chord and tangent on y^2 = x^3 + 4 and y^2 = x^3 + 4(1 + u). Generators are derived: the smallest "
    "x with a point whose multiple by the cofactor is not the identity. Coordinates are canonical; z is a denominator: "
    "an operand goes in as X = x z^2, Y = y z^3, ZZ = z^2, ZZZ = z^3, and the identity with ZZ = ZZZ = 0. "
    "Encodings are Zcash's."
)

NOTES = {
    "identity": {
        "meaning": "An operand or the result is the identity.",
        "effect": "The formula's denominators are zero, and its result is a point that does not exist.",
    },
    "equal": {
        "meaning": "Both operands are the same point, perhaps over different denominators.",
        "effect": "The addition formula gives 0/0 where a doubling is needed.",
    },
    "opposite": {
        "meaning": "The operands add up to the identity.",
        "effect": "The formula divides by zero; a test of x alone takes it for a doubling.",
    },
    "related": {
        "meaning": "The operands are different small multiples of one point.",
        "effect": "A special case that is taken where it does not apply.",
    },
    "small_order": {
        "meaning": "A point of order 3: its double is its opposite.",
        "effect": "A doubling whose result meets the operand again.",
    },
    "denominator": {
        "meaning": "An operand over a random denominator.",
        "effect": "Coordinates that are compared without their denominators.",
    },
    "multiple": {
        "meaning": "A multiple by a number of 32 bits.",
        "effect": "A bit that is left out, first or last.",
    },
    "random": {"meaning": "Points with no known relation.", "effect": "Anything that is wrong always."},
    "encoding": {
        "meaning": "The encoding of a point.",
        "effect": "Another point, or a refusal of a good file.",
    },
    "flag_bits": {
        "meaning": "The three top bits say what the encoding cannot be.",
        "effect": "Two encodings of one point: what was signed is not what is read.",
    },
    "infinity_bits": {
        "meaning": "The bit for the identity is set, and so are bits that must be zero then.",
        "effect": "Many encodings of one point.",
    },
    "coordinate_range": {
        "meaning": "A coordinate is an integer from p up.",
        "effect": "Two encodings of one point, or limbs that no formula expects.",
    },
    "off_curve": {
        "meaning": "The coordinates satisfy no curve equation of this group, or no y exists.",
        "effect": "Formulas that never use b compute on another curve, a weak one perhaps.",
    },
    "subgroup": {
        "meaning": "On the curve, and not of the prime order.",
        "effect": "A product by a scalar that was reduced modulo r is another point, and a pairing may leak.",
    },
    "zero_coordinates": {
        "meaning": "x = y = 0 without the bit for the identity. The memory of the identity is all zero, and so a decoder "
        "that makes a point of these coordinates has made the identity.",
        "effect": "A second encoding of the identity. Decoders that take it are known; it is recorded who does.",
    },
    "truncated": {
        "meaning": "The bytes end too early.",
        "effect": "Memory behind the input is read as a point.",
    },
}


def point_json(group, point):
    f = group.field
    return "infinity" if point is None else {"x": f.element(point[0]), "y": f.element(point[1])}


def related(group, random):
    """Pairs of points in every relation, with what they are called."""
    p, q = (group.of_log(1 + random.below(2**250)) for _ in range(2))
    double, sum_ = group.add(p, p), group.add(p, q)
    minus = group.negate
    pairs = [
        ("identity and identity", None, None, ["identity"]),
        ("identity and a point", None, p, ["identity"]),
        ("a point and the identity", p, None, ["identity"]),
        ("a point and itself", p, p, ["equal"]),
        ("a point and its opposite", p, minus(p), ["opposite"]),
        ("the generator and itself", group.generator, group.generator, ["equal"]),
        ("a point and its double", p, double, ["related"]),
        ("a point and minus its double", p, minus(double), ["related"]),
        ("a sum and minus one of its parts", sum_, minus(q), ["related"]),
        ("two random points", p, q, ["random"]),
        ("two random points, one negated", p, minus(q), ["random"]),
    ]
    if group is G1:
        small = (0, 2)
        assert group.on_curve(small) and group.multiple(3, small) is None
        pairs += [
            ("a point of order 3 and itself", small, small, ["small_order", "equal"]),
            ("a point of order 3 and its opposite", small, minus(small), ["small_order", "opposite"]),
        ]
    return pairs


def arithmetic(group, random):
    f = group.field
    tests = []

    def case(comment, flags, output, **given):
        test = {"comment": comment, "flags": sorted(set(flags)), "input": given, "result": "valid"}
        tests.append({**test, "output": point_json(group, output)})

    points, one = (lambda point: point_json(group, point)), f.element(f.one)
    for comment, p, q, flags in related(group, random):
        for z_p, z_q in ((one, one), (f.element(f.random(random)), f.element(f.random(random)))):
            over = flags + ([] if z_p == one else ["denominator"])
            operands = {"p": points(p), "z_p": z_p, "q": points(q)}
            case(comment, over, group.add(p, q), op="add", **operands, z_q=z_q)
            is_negative = z_p != one
            signed = group.negate(q) if is_negative else q
            sign = "p - q" if is_negative else "p + q"
            case(
                f"{comment}, {sign}",
                over,
                group.add(p, signed),
                op="add_affine",
                **operands,
                negative=is_negative,
            )
    p = group.of_log(1 + random.below(2**250))
    for comment, point, flags in (("identity", None, ["identity"]), ("random", p, ["random"])):
        z = f.element(f.random(random))
        case(
            f"twice: {comment}",
            flags + ["denominator"],
            group.add(point, point),
            op="double",
            p=points(point),
            z_p=z,
        )
        case(
            f"minus: {comment}",
            flags + ["denominator"],
            group.negate(point),
            op="negate",
            p=points(point),
            z_p=z,
        )
    for k in (0, 1, 2, 3, 7, 2**16, 2**31, 2**32 - 1, random.bits(32)):
        flags = ["multiple"] + (["identity"] if k == 0 else [])
        case(f"{k} times a point", flags, group.multiple(k, p), op="multiple", p=points(p), z_p=one, k=k)
    case("7 times the identity", ["multiple", "identity"], None, op="multiple", p="infinity", z_p=one, k=7)
    return tests


def with_bits(encoding, bits):
    return bytes([encoding[0] | bits]) + encoding[1:]


def encodings(group, random):
    f, width = group.field, group.field.width_bytes
    tests = []

    def case(comment, flag, form, encoding, point=None, error=None):
        given = {"op": "decode", "form": form, "encoding": encoding.hex()}
        test = {"comment": comment, "flags": flag if isinstance(flag, list) else [flag], "input": given}
        if error:
            test.update(result="invalid", error=error)
        else:
            test.update(result="valid", output=point_json(group, point))
        tests.append(test)

    point = group.of_log(1 + random.below(2**250))
    for comment, good in (
        ("the generator", group.generator),
        ("a point", point),
        ("its opposite", group.negate(point)),
    ):
        case(comment, "encoding", "uncompressed", group.uncompressed(good), good)
        case(comment, "encoding", "compressed", group.compressed(good), good)
    for form, encode in (("uncompressed", group.uncompressed), ("compressed", group.compressed)):
        case("the identity", ["encoding", "identity"], form, encode(None), None)

    plain, packed = group.uncompressed(point), group.compressed(point)
    for bits in (0x20, 0x80, 0xA0, 0x60, 0xE0):
        case(f"top bits {bits:#04x}", "flag_bits", "uncompressed", with_bits(plain, bits), error="flags")
    case(
        "the bit for compression is clear",
        "flag_bits",
        "compressed",
        bytes([packed[0] & 0x1F]) + packed[1:],
        error="flags",
    )
    case(
        "the identity with a sign",
        "flag_bits",
        "compressed",
        with_bits(group.compressed(None), 0x20),
        error="flags",
    )
    case(
        "the identity, said to be compressed",
        "flag_bits",
        "uncompressed",
        with_bits(group.uncompressed(None), 0x80),
        error="flags",
    )
    for form, encoding in (
        ("uncompressed", group.uncompressed(None)),
        ("compressed", group.compressed(None)),
    ):
        case(
            "the identity with a last bit",
            "infinity_bits",
            form,
            encoding[:-1] + b"\x01",
            error="dirty_infinity",
        )
        case(
            "the identity with a first bit",
            "infinity_bits",
            form,
            with_bits(encoding, 0x10),
            error="dirty_infinity",
        )
    case(
        "a point with the bit for the identity",
        "infinity_bits",
        "uncompressed",
        with_bits(plain, 0x40),
        error="dirty_infinity",
    )

    # p itself stands for zero, p + x for x; both fit 381 bits only while x < 2^381 - p.
    beyond, small = P.to_bytes(48, "big"), (P + 1).to_bytes(48, "big")
    for position in range(0, len(plain), 48):
        which = "x" if position < width else "y"
        for comment, integer in (("p", beyond), ("p + 1", small)):
            changed = plain[:position] + integer + plain[position + 48 :]
            case(
                f"{comment} at byte {position}",
                "coordinate_range",
                "uncompressed",
                changed,
                error=f"coordinate_{which}",
            )
    for position in range(0, len(packed), 48):
        changed = packed[:position] + beyond + packed[position + 48 :]
        case(
            f"p at byte {position}",
            "coordinate_range",
            "compressed",
            with_bits(changed, 0x80),
            error="coordinate_x",
        )

    wrong_y = (point[0], f.add(point[1], f.one))
    case("y + 1", "off_curve", "uncompressed", group.uncompressed(wrong_y), error="not_on_curve")
    case(
        "x and y exchanged",
        "off_curve",
        "uncompressed",
        group.uncompressed((point[1], point[0])),
        error="not_on_curve",
    )
    case("all zero", "zero_coordinates", "uncompressed", bytes(2 * width), error="not_on_curve")
    x = f.of(1)
    while group.lift_x(x) is not None:
        x = f.add(x, f.one)
    case(
        "x without a y",
        "off_curve",
        "compressed",
        with_bits(f.coordinate_bytes(x), 0x80),
        error="not_on_curve",
    )

    outside = [("of no prime order", group.outside_subgroup(random))]
    if group is G1:
        outside.append(("of order 3", (0, 2)))
    for comment, bad in outside:
        case(comment, "subgroup", "uncompressed", group.uncompressed(bad), error="not_in_subgroup")
        case(comment, "subgroup", "compressed", group.compressed(bad), error="not_in_subgroup")
    case("one byte too few", "truncated", "uncompressed", plain[:-1], error="truncated")
    case("one byte too few", "truncated", "compressed", packed[:-1], error="truncated")
    case("no bytes", "truncated", "uncompressed", b"", error="truncated")
    return tests


def parts(seed):
    found = {}
    for group in (G1, G2):
        random = Random(seed, f"curve {group.name}")
        tests = arithmetic(group, random) + encodings(group, random)
        used = {flag for test in tests for flag in test["flags"]}
        found[f"curve_{group.name}"] = {
            "algorithm": f"{group.name.upper()} of BLS12-381",
            "provenance": PROVENANCE,
            "notes": {flag: note for flag, note in NOTES.items() if flag in used},
            "tests": tests,
        }
    return found
