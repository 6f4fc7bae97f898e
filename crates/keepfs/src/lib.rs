//! The keepfs library facade.
