"""The mathematics of BLS12-381 in plain integers: two prime fields, a quadratic extension, two groups, their encodings.

Written from the definitions and made to be read: points are affine, inverses are powers, and nothing is fast. It shares
no line and no constant with the code that its results judge.
"""

import hashlib

# The curve is one of a family: both primes are polynomials in one parameter.
X = -0xD201000000010000
R = X**4 - X**2 + 1
P = (X - 1) ** 2 * R // 3 + X

# Cofactors of the two groups, from the same parameter.
COFACTOR_G1 = (X - 1) ** 2 // 3
COFACTOR_G2 = (X**8 - 4 * X**7 + 5 * X**6 - 4 * X**4 + 6 * X**3 - 4 * X**2 - 4 * X + 13) // 9


class Random:
    """Numbers that are a function of a seed and a label: SHA-256 in counter mode."""

    def __init__(self, seed, label):
        self.key = f"{seed}/{label}".encode()
        self.count = 0

    def bits(self, count):
        blocks = b""
        while 8 * len(blocks) < count:
            blocks += hashlib.sha256(self.key + self.count.to_bytes(8, "big")).digest()
            self.count += 1
        return int.from_bytes(blocks, "big") % 2**count

    def below(self, bound):
        # 128 bits more than the bound has: what is left of a bias cannot be seen.
        return self.bits(bound.bit_length() + 128) % bound

    def one_of(self, items):
        return items[self.below(len(items))]


class Prime:
    """A prime field. Elements are integers below the modulus."""

    zero, one = 0, 1

    def __init__(self, modulus, width_bytes):
        self.modulus = modulus
        self.width_bytes = width_bytes
        self.mont_r = 2 ** (8 * width_bytes)

    def of(self, integer):
        return integer % self.modulus

    def add(self, a, b):
        return (a + b) % self.modulus

    def sub(self, a, b):
        return (a - b) % self.modulus

    def mul(self, a, b):
        return a * b % self.modulus

    def neg(self, a):
        return -a % self.modulus

    def inv(self, a):
        return pow(a, -1, self.modulus)

    def sqrt(self, a):
        """A square root, or None. The modulus is 3 mod 4."""
        assert self.modulus % 4 == 3
        root = pow(a, (self.modulus + 1) // 4, self.modulus)
        return root if root * root % self.modulus == a else None

    def is_larger(self, a):
        """Whether a is the larger one of a and -a."""
        return a > self.neg(a)

    def random(self, random):
        return random.below(self.modulus)

    def montgomery(self, a):
        return a * self.mont_r % self.modulus

    def from_montgomery(self, words):
        return words * pow(self.mont_r, -1, self.modulus) % self.modulus

    def hex(self, integer):
        """An integer of the field's width, the highest digit first."""
        return f"{integer:0{2 * self.width_bytes}x}"

    def coordinate_bytes(self, a):
        return a.to_bytes(self.width_bytes, "big")

    def element(self, a):
        return self.hex(a)


class Quadratic:
    """Fp2 = Fp[u] / (u^2 + 1). Elements are pairs: (c0, c1) is c0 + c1*u."""

    zero, one = (0, 0), (1, 0)

    def __init__(self, base):
        self.base = base
        self.width_bytes = 2 * base.width_bytes

    def of(self, integer):
        return (self.base.of(integer), 0)

    def add(self, a, b):
        return (self.base.add(a[0], b[0]), self.base.add(a[1], b[1]))

    def sub(self, a, b):
        return (self.base.sub(a[0], b[0]), self.base.sub(a[1], b[1]))

    def mul(self, a, b):
        # (a0 + a1 u)(b0 + b1 u) with u^2 = -1
        return (self.base.of(a[0] * b[0] - a[1] * b[1]), self.base.of(a[0] * b[1] + a[1] * b[0]))

    def neg(self, a):
        return (self.base.neg(a[0]), self.base.neg(a[1]))

    def inv(self, a):
        # 1 / (a0 + a1 u) = (a0 - a1 u) / (a0^2 + a1^2)
        over = self.base.inv(self.base.of(a[0] * a[0] + a[1] * a[1]))
        return (self.base.mul(a[0], over), self.base.mul(self.base.neg(a[1]), over))

    def sqrt(self, a):
        """A square root, or None: x0^2 - x1^2 = a0, 2 x0 x1 = a1, and so x0^2 = (a0 +- |a|) / 2."""
        base = self.base
        norm = base.sqrt(base.of(a[0] * a[0] + a[1] * a[1]))
        if norm is None:
            return None
        for sign in (norm, base.neg(norm)):
            x0 = base.sqrt(base.mul(base.add(a[0], sign), base.inv(2)))
            if x0 is None:
                continue
            x1 = base.mul(a[1], base.inv(base.add(x0, x0))) if x0 else base.sqrt(base.neg(a[0]))
            if x1 is not None and self.mul((x0, x1), (x0, x1)) == a:
                return (x0, x1)
        return None

    def is_larger(self, a):
        return self.base.is_larger(a[1]) if a[1] else self.base.is_larger(a[0])

    def random(self, random):
        return (self.base.random(random), self.base.random(random))

    def montgomery(self, a):
        return (self.base.montgomery(a[0]), self.base.montgomery(a[1]))

    def coordinate_bytes(self, a):
        # c1 comes first on the wire.
        return self.base.coordinate_bytes(a[1]) + self.base.coordinate_bytes(a[0])

    def element(self, a):
        return [self.base.element(a[0]), self.base.element(a[1])]


class Group:
    """The points of y^2 = x^3 + b over a field. The identity is None, other points are (x, y)."""

    def __init__(self, name, field, b, cofactor):
        self.name, self.field, self.b = name, field, b
        self.generator = self._generator(cofactor)
        assert self.multiple(R, self.generator) is None

    def on_curve(self, point):
        f = self.field
        return point is None or f.mul(point[1], point[1]) == self.y_square(point[0])

    def y_square(self, x):
        f = self.field
        return f.add(f.mul(f.mul(x, x), x), self.b)

    def negate(self, point):
        return None if point is None else (point[0], self.field.neg(point[1]))

    def add(self, p, q):
        f = self.field
        if p is None or q is None:
            return q if p is None else p
        if p[0] == q[0]:
            if p[1] != q[1] or p[1] == f.zero:
                return None
            slope = f.mul(f.mul(f.of(3), f.mul(p[0], p[0])), f.inv(f.add(p[1], p[1])))
        else:
            slope = f.mul(f.sub(q[1], p[1]), f.inv(f.sub(q[0], p[0])))
        x = f.sub(f.sub(f.mul(slope, slope), p[0]), q[0])
        return (x, f.sub(f.mul(slope, f.sub(p[0], x)), p[1]))

    def multiple(self, k, point):
        """k * point for any integer k >= 0; k is not reduced, so that it serves points of any order."""
        total = None
        for bit in f"{k:b}":
            total = self.add(total, total)
            if bit == "1":
                total = self.add(total, point)
        return total

    def of_log(self, log):
        return self.multiple(log % R, self.generator)

    def sum(self, points):
        total = None
        for point in points:
            total = self.add(total, point)
        return total

    def lift_x(self, x):
        """The point with this x and the smaller y, or None."""
        y = self.field.sqrt(self.y_square(x))
        if y is None:
            return None
        return (x, self.field.neg(y) if self.field.is_larger(y) else y)

    def _generator(self, cofactor):
        """The smallest x that lifts and whose multiple by the cofactor is not the identity; the smaller y."""
        x = 0
        while True:
            lifted = self.lift_x(self.field.of(x))
            point = None if lifted is None else self.multiple(cofactor, lifted)
            if point is not None:
                return point
            x += 1

    def outside_subgroup(self, random):
        """A point on the curve that is not of the order R."""
        while True:
            point = self.lift_x(self.field.random(random))
            if point is not None and self.multiple(R, point) is not None:
                return point

    def uncompressed(self, point):
        """x and y, the highest byte first; the identity is all zero but for bit 6 of the first byte."""
        if point is None:
            return bytes([0x40]) + bytes(2 * self.field.width_bytes - 1)
        return self.field.coordinate_bytes(point[0]) + self.field.coordinate_bytes(point[1])

    def compressed(self, point):
        """x, with bit 7 of the first byte set, bit 6 for the identity, bit 5 for the larger y."""
        if point is None:
            return bytes([0xC0]) + bytes(self.field.width_bytes - 1)
        encoding = bytearray(self.field.coordinate_bytes(point[0]))
        encoding[0] |= 0x80 | (0x20 if self.field.is_larger(point[1]) else 0)
        return bytes(encoding)


FP = Prime(P, 48)
FR = Prime(R, 32)
FP2 = Quadratic(FP)
G1 = Group("g1", FP, 4, COFACTOR_G1)
G2 = Group("g2", FP2, (4, 4), COFACTOR_G2)


def root_of_unity(non_residue, log_n):
    """The generator of the domain of 2^log_n that a non-residue gives: a power of non_residue^((r - 1) / 2^32)."""
    assert (R - 1) % 2**32 == 0 and pow(non_residue, (R - 1) // 2, R) == R - 1
    return pow(non_residue, (R - 1) // 2**log_n, R)
