//! The keepfs command.
fn main() {}
