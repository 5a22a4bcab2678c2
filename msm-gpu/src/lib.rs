//! G1 and G2 multi-scalar multiplication.
