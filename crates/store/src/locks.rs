//! The locks of this package: those of the vault, so that tests search the orders in which threads take both (decision 0710).

pub use keepfs_vault::locks::*;

#[cfg(test)]
mod tests;
