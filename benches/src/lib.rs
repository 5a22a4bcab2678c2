//! Criterion benchmarks of synchronisation strategies and buffer depths will live here; the room is empty today.
