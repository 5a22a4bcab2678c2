"""Cases of multi-scalar multiplication, and of what it starts with: signed digits, and their entries sorted by bucket."""

from bls12_381 import FR, G1, G2, R, Random
from vectors_curve import point_json

TOP_BIT = 2**255  # no scalar has it

FLAVOURS = {
    "edge": {
        "meaning": "Scalars at the edges: 0, 1, 2, and their neighbours below r.",
        "effect": "A carry out of the last window, or a special case for zero or one.",
    },
    "half_window": {
        "meaning": "Digits that are half a window's range, or a neighbour of it.",
        "effect": "The digit where the sign changes gets the wrong sign, or a carry that is lost.",
    },
    "long_carry": {
        "meaning": "A carry that runs through all windows.",
        "effect": "A carry that is dropped at the edge of a limb or of the last window.",
    },
    "ones": {
        "meaning": "Scalars equal to one, which are counted apart.",
        "effect": "A base that is counted twice, or not at all.",
    },
    "one_bucket": {
        "meaning": "All scalars are equal: one bucket a window takes everything.",
        "effect": "Counters that overflow, or partial sums of one bucket that are lost.",
    },
    "empty": {"meaning": "Nothing is to be added.", "effect": "Memory that is read before it is written."},
    "random": {"meaning": "Uniform scalars.", "effect": "Anything that is wrong always."},
    "not_reduced": {
        "meaning": "A scalar that is not below r, in canonical form.",
        "effect": "Silently another scalar, or digits beyond the last window.",
    },
}

DIGITS_PROVENANCE = (
    "Windows from the least significant: the next window_bits bits and the carry from the window before; a value over "
    "half the range becomes the value minus the range, with a carry of one. Windows cover 256 bits. Shown for each case: "
    "the digits times their weights add up to the scalar, and the last carry is zero. The scalar one has no digits and a mark."
)

SORT_PROVENANCE = (
    "The digits of each scalar, as in digits.json. Digit d of window w is an entry of bucket w * 2^(window_bits - 1) + "
    "|d| - 1, added or subtracted by its sign; scalars equal to one are entries of the bucket after the last. Entries are "
    "indices of scalars; their order within a bucket is not defined."
)

MSM_PROVENANCE = (
    "Sums of affine multiples. Bases are given by coordinates, and with log as multiples of the generator: the result is "
    "also the multiple by the sum of scalar times log, which is shown where all logs are known."
)


def window_count(window_bits):
    return -(-256 // window_bits)


def recode(scalar, window_bits):
    """Signed digits, least significant first, and whether the scalar is one, which has a mark instead."""
    count = window_count(window_bits)
    if scalar == 1:
        return [0] * count, True
    digits, carry, range_ = [], 0, 2**window_bits
    for window in range(count):
        value = (scalar >> (window * window_bits)) % range_ + carry
        carry = 1 if value > range_ // 2 else 0
        digits.append(value - range_ * carry)
    assert carry == 0
    assert sum(digit * range_**window for window, digit in enumerate(digits)) == scalar
    assert all(abs(digit) <= range_ // 2 for digit in digits)
    return digits, False


def of_windows(value, window_bits):
    """The scalar whose windows are all the same value, as many as fit below r."""
    scalar, next_ = 0, value
    while next_ < R:
        scalar, next_ = next_, (next_ << window_bits) + value
    return scalar


def digit_scalars(window_bits, random):
    half = 2 ** (window_bits - 1)
    return [
        ("zero", 0, ["edge"]),
        ("one", 1, ["edge", "ones"]),
        ("two", 2, ["edge"]),
        ("r - 1", R - 1, ["edge"]),
        ("r - 2", R - 2, ["edge"]),
        ("half a window", half, ["half_window"]),
        ("half a window and one", half + 1, ["half_window"]),
        ("all windows half", of_windows(half, window_bits), ["half_window"]),
        ("all windows just over half", of_windows(half + 1, window_bits), ["half_window", "long_carry"]),
        ("all bits up to 254", 2**254 - 1, ["long_carry"]),
        (
            "bits at the edges of limbs",
            sum(2**bit + 2 ** (bit - 1) for bit in range(32, 254, 32)),
            ["long_carry"],
        ),
        ("random", random.below(R), ["random"]),
    ]


def digits_part(seed):
    random = Random(seed, "digits")
    tests = []
    for window_bits in (2, 3, 4, 5, 8, 11, 13, 15, 16, 17, 20):
        for comment, scalar, flags in digit_scalars(window_bits, random):
            digits, is_one = recode(scalar, window_bits)
            given = {"window_bits": window_bits, "scalar": FR.hex(scalar)}
            output = {"is_one": is_one, "digits": digits}
            tests.append(
                {"comment": comment, "flags": flags, "input": given, "result": "valid", "output": output}
            )
    for comment, scalar in (
        ("r", R),
        ("r + 1", R + 1),
        ("the highest bit alone", TOP_BIT),
        ("all bits", 2**256 - 1),
    ):
        given = {"window_bits": 15, "scalar": FR.hex(scalar)}
        case = {"comment": comment, "flags": ["not_reduced"], "input": given}
        tests.append({**case, "result": "invalid", "error": "not_reduced"})
    return part("Signed digits of scalars", DIGITS_PROVENANCE, FLAVOURS, tests)


def runs(scalars, window_bits):
    """The entries by bucket, those buckets left out that have none."""
    buckets = 2 ** (window_bits - 1)
    found = {}
    for index, scalar in enumerate(scalars):
        digits, is_one = recode(scalar, window_bits)
        entries = [
            (window * buckets + abs(digit) - 1, digit < 0) for window, digit in enumerate(digits) if digit
        ]
        if is_one:
            entries = [(window_count(window_bits) * buckets, False)]
        for bucket, is_negative in entries:
            run = found.setdefault(bucket, {"bucket": bucket, "add": [], "subtract": []})
            run["subtract" if is_negative else "add"].append(index)
    return [found[bucket] for bucket in sorted(found)]


def sort_part(seed):
    random = Random(seed, "sort")
    uniform = lambda count: [random.below(R) for _ in range(count)]
    mixed = [0, 1, R - 1, 1, 0, 2, R - 2] + uniform(4)
    cases = [
        ("one scalar", 4, uniform(1), ["random"]),
        ("uniform", 8, uniform(7), ["random"]),
        ("uniform, wide windows", 13, uniform(5), ["random"]),
        ("zeros", 8, [0] * 9, ["empty"]),
        ("ones, more than a block takes", 8, [1] * 257, ["ones"]),
        ("ones and zeros", 5, [index % 2 for index in range(33)], ["ones"]),
        ("r - 1 for all", 16, [R - 1] * 40, ["one_bucket", "edge"]),
        ("one scalar for all", 8, [random.below(R)] * 31, ["one_bucket"]),
        ("half and its neighbours", 8, [127, 128, 129, 128 << 8, 129 << 8], ["half_window"]),
        ("all windows just over half", 11, [of_windows(1025, 11)] * 3, ["half_window", "long_carry"]),
        ("edges and uniform", 3, mixed, ["edge", "ones"]),
    ]
    tests = []
    for comment, window_bits, scalars, flags in cases:
        sorted_ = runs(scalars, window_bits)
        entry_count = sum(len(run["add"]) + len(run["subtract"]) for run in sorted_)
        given = {"window_bits": window_bits, "scalars": [FR.hex(scalar) for scalar in scalars]}
        output = {"entry_count": entry_count, "runs": sorted_}
        tests.append(
            {"comment": comment, "flags": flags, "input": given, "result": "valid", "output": output}
        )
    return part("Entries of scalars sorted by bucket", SORT_PROVENANCE, FLAVOURS, tests)


MSM_NOTES = {
    **FLAVOURS,
    "identity": {
        "meaning": "A base or the result is the identity.",
        "effect": "A formula that divides by zero.",
    },
    "equal_bases": {
        "meaning": "One base several times.",
        "effect": "An addition that must be a doubling.",
    },
    "opposite_bases": {
        "meaning": "A base and its opposite.",
        "effect": "A bucket that becomes the identity and is added to again.",
    },
    "doubling": {
        "meaning": "The sum so far equals the next base.",
        "effect": "An addition that must be a doubling, in the middle of a bucket.",
    },
    "length": {"meaning": "Not as many scalars as bases.", "effect": "Memory behind the input is read."},
    "off_curve": {"meaning": "A base off the curve.", "effect": "A product on another curve."},
    "subgroup": {
        "meaning": "A base on the curve, not of the prime order.",
        "effect": "A product that depends on how scalars are reduced.",
    },
}


def msm_part(seed, group):
    random = Random(seed, f"msm {group.name}")
    table = []

    def base(log=None, point=None):
        found = group.of_log(log) if point is None and log is not None else point
        table.append((log, found))
        return len(table) - 1

    identity = base(log=0)
    some = [base(log=1 + random.below(R - 1)) for _ in range(11)]
    minus = [base(log=R - table[index][0]) for index in some[:3]]
    powers = [base(log=2**index) for index in range(6)]
    outside = base(point=group.outside_subgroup(random))
    off = base(point=(group.generator[0], group.field.add(group.generator[1], group.field.one)))
    tests = []

    def case(comment, flags, bases, scalars, error=None):
        given = {"bases": bases, "scalars": [FR.hex(scalar) for scalar in scalars]}
        test = {"comment": comment, "flags": flags, "input": given}
        if error:
            tests.append({**test, "result": "invalid", **error})
            return
        total = group.sum(group.multiple(scalar, table[index][1]) for index, scalar in zip(bases, scalars))
        assert total == group.of_log(sum(table[index][0] * scalar for index, scalar in zip(bases, scalars)))
        tests.append({**test, "result": "valid", "output": point_json(group, total)})

    uniform = lambda count: [random.below(R) for _ in range(count)]
    case("nothing", ["empty"], [], [])
    case("one base", ["random"], some[:1], uniform(1))
    case("eleven bases", ["random"], some, uniform(11))
    case("zeros", ["empty", "identity"], some[:5], [0] * 5)
    case("ones", ["ones"], some[:7], [1] * 7)
    case("r - 1 for all", ["edge", "one_bucket"], some[:7], [R - 1] * 7)
    case("edges", ["edge", "ones"], some[:7], [0, 1, 2, R - 1, R - 2, R // 2, R // 2 + 1])
    case("one scalar for all", ["one_bucket"], some, uniform(1) * 11)
    case("one base, one scalar", ["equal_bases", "one_bucket"], some[:1] * 6, uniform(1) * 6)
    case("bases and their opposites", ["opposite_bases", "identity"], some[:3] + minus, uniform(3) * 2)
    scalars = uniform(3)
    case(
        "a base with k and r - k",
        ["equal_bases", "identity"],
        some[:3] * 2,
        scalars + [R - k for k in scalars],
    )
    case(
        "identities between bases", ["identity"], [identity, some[0], identity, some[1], identity], uniform(5)
    )
    case("identities alone", ["identity", "empty"], [identity] * 4, uniform(4))
    # G + G = 2G, + 2G = 4G, and so on: each sum meets the base that comes next.
    case("each sum is the next base", ["doubling"], powers[:1] + powers, uniform(1) * 7)
    half = of_windows(128, 8)
    case("all digits half", ["half_window"], some[:4], [half, half + 1, half - 1, half])
    case(
        "carries through all windows", ["long_carry"], some[:3], [2**254 - 1, of_windows(129, 8), 2**128 - 1]
    )
    for index, scalar in enumerate((R, R + 1, TOP_BIT, 2**256 - 1)):
        given = uniform(index) + [scalar] + uniform(1)
        error = {"error": "scalar_not_reduced", "index": index}
        case("a scalar from r up", ["not_reduced"], some[: index + 2], given, error)
    case("a scalar too few", ["length"], some[:3], uniform(2), {"error": "length_mismatch"})
    case("a scalar too many", ["length"], some[:3], uniform(4), {"error": "length_mismatch"})
    case("off the curve", ["off_curve"], some[:2] + [off], uniform(3), {"error": "not_on_curve", "index": 2})
    case(
        "not of the order",
        ["subgroup"],
        some[:1] + [outside],
        uniform(2),
        {"error": "not_in_subgroup", "index": 1},
    )
    points = [
        {"log": None if log is None else FR.hex(log), "point": point_json(group, point)}
        for log, point in table
    ]
    made = part(f"Multi-scalar multiplication in {group.name.upper()}", MSM_PROVENANCE, MSM_NOTES, tests)
    return {**made, "tables": {"points": points}}


def part(algorithm, provenance, notes, tests):
    used = {flag for test in tests for flag in test["flags"]}
    notes = {flag: note for flag, note in notes.items() if flag in used}
    return {"algorithm": algorithm, "provenance": provenance, "notes": notes, "tests": tests}


def parts(seed):
    return {
        "digits": digits_part(seed),
        "sort": sort_part(seed),
        "msm_g1": msm_part(seed, G1),
        "msm_g2": msm_part(seed, G2),
    }
