//! Tests of the arena: verifying while others write.
