//! Number-theoretic transforms over Fr: forward, inverse and coset transforms will live here; the room is empty today.
