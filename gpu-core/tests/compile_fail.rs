//! Mistakes with copies outside schedules that do not compile. What the compiler says is in `compile_fail/*.stderr`; after a
//! change, `TRYBUILD=overwrite cargo test -p gpu-core --test compile_fail` writes it anew.

#[test]
fn mistakes_with_copies_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
